use proptest::prelude::*;
use serde_json::json;

use super::*;

mod arguments;

/// A made-up run of letters and digits that looks random: no real secret is in this file.
fn made_up(len: usize) -> String {
    "q7Rk2ZxW9vTb4NpY6mLc8HsD3fGj5Ea1Uo0"
        .chars()
        .cycle()
        .take(len)
        .collect()
}

fn upper(len: usize) -> String {
    "Q7RK2ZXW4VTB"
        .replace(['4', '9'], "5")
        .chars()
        .cycle()
        .take(len)
        .collect()
}

fn hex(len: usize) -> String {
    "9f86d081884c7d65".chars().cycle().take(len).collect()
}

fn text(text: &str) -> String {
    Redactor::shared().text(text).into_owned()
}

/// Rule, text before the secret, the secret, text after it.
fn secrets() -> Vec<(&'static str, String, String, String)> {
    let case = |rule, before: &str, secret: String, after: &str| {
        (rule, before.to_owned(), secret, after.to_owned())
    };
    let m = made_up;
    vec![
        case(
            "aws-access-key",
            "id ",
            format!("AKIA{}", upper(16)),
            " end",
        ),
        case("aws-access-key", "\"", format!("ASIA{}", upper(16)), "\""),
        case("gcp-api-key", "?x=", format!("AIza{}", m(35)), "&y"),
        case("gcp-oauth", "", format!("ya29.{}", m(60)), ""),
        case(
            "azure-key",
            "AccountName=a;AccountKey=",
            format!("{}==", m(86)),
            ";End",
        ),
        case(
            "azure-client-secret",
            "x ",
            format!("{}8Q~{}", m(3), m(34)),
            "",
        ),
        case("signed-url", "https://h/x?a=1&sig=", m(43), "&b"),
        case("signed-url", "https://h/x?X-Amz-Signature=", hex(64), ""),
        case("github-token", "use ", format!("ghp_{}", m(36)), "."),
        case("github-token", "", format!("github_pat_{}", m(60)), ""),
        case("gitlab-token", "", format!("glpat-{}", m(20)), ""),
        case("slack-token", "(", format!("xoxb-{}", m(40)), ")"),
        case(
            "webhook-url",
            "https://hooks.slack.com/services/",
            format!("T0/B0/{}", m(24)),
            "",
        ),
        case("anthropic-key", "", format!("sk-ant-api03-{}", m(80)), ""),
        case("openai-key", "", format!("sk-proj-{}", m(48)), ""),
        case("openai-key", "", format!("sk-{}", m(48)), ""),
        case("stripe-key", "", format!("sk_live_{}", m(24)), ""),
        case("npm-token", "", format!("npm_{}", m(36)), ""),
        case("pypi-token", "", format!("pypi-{}", m(90)), ""),
        case("huggingface-token", "", format!("hf_{}", m(34)), ""),
        case("sendgrid-key", "", format!("SG.{}.{}", m(22), m(43)), ""),
        case(
            "telegram-token",
            "bot ",
            format!("123456789:AA{}", m(33)),
            "",
        ),
        case("service-token", "", format!("dop_v1_{}", hex(64)), ""),
        case("service-token", "", format!("hvs.{}", m(30)), ""),
        case("service-token", "key ", format!("{}-us12", hex(32)), ""),
        case("service-token", "", format!("sq0atp-{}", m(22)), ""),
        case("service-token", "", format!("NRAK-{}", upper(27)), ""),
        case("service-token", "", format!("sntrys_{}", m(40)), ""),
        case("service-token", "", format!("pat{}.{}", m(14), hex(64)), ""),
        case("service-token", "", format!("nfp_{}", m(40)), ""),
        case(
            "service-token",
            "",
            format!("{}.atlasv1.{}", m(14), m(67)),
            "",
        ),
        case("service-token", "", format!("pul-{}", hex(40)), ""),
        case("service-token", "", format!("secret_{}", m(43)), ""),
        case("service-token", "", format!("sqp_{}", hex(40)), ""),
        case("service-token", "", format!("1//0{}", m(40)), ""),
        case(
            "service-token",
            "",
            format!("lsv2_pt_{}_{}", hex(32), hex(10)),
            "",
        ),
        case(
            "discord-token",
            "bot ",
            format!("M{}.{}.{}", m(25), m(6), m(30)),
            "",
        ),
        case(
            "private-key",
            "Private-Lines: 2\n",
            format!("{}\n{}\n", m(64), m(40)),
            "Private-MAC: x",
        ),
        case(
            "url-password",
            "mongodb+srv://ann:",
            "hunter2".to_owned(),
            "@c.example.net/db",
        ),
        case(
            "url-password",
            "amqps://ann:",
            "hunter2".to_owned(),
            "@mq/%2f",
        ),
        case(
            "url-password",
            "fatal: unable to access 'https://ann:",
            "hunter2".to_owned(),
            "@h/x.git/'",
        ),
        case("secret", "Ocp-Apim-Subscription-Key: ", hex(32), ""),
        case("secret", "GITLAB_PRIVATE_TOKEN=", m(20), " x"),
        case("secret", "PRIVATE-TOKEN: ", m(20), ""),
        case("secret", "{\"refresh_token\":\"", "abc".to_owned(), "\"}"),
        case("secret", "[default]\naws_session_token = ", m(120), "\n"),
        case("secret", "PrivateKey = ", format!("{}=", m(43)), "\n"),
        case(
            "secret",
            "error: bad credentials: password=\"",
            "hunter2".to_owned(),
            "\"",
        ),
        case("replicate-token", "", format!("r8_{}", m(37)), ""),
        case(
            "jwt",
            "t ",
            format!("eyJ{}.eyJ{}.{}", m(20), m(30), m(43)),
            "",
        ),
        case(
            "url-password",
            "postgres://user:",
            "hunter2".to_owned(),
            "@db:5432/x",
        ),
        case(
            "url-password",
            "https://user:",
            "p@ss:w0rd".to_owned(),
            "@host/x",
        ),
        case("url-password", "redis://:", "hunter2".to_owned(), "@host"),
        case("url-token", "git clone https://", m(40), "@host/x.git"),
        case(
            "authorization",
            "Authorization: Bearer ",
            "abc".to_owned(),
            "",
        ),
        case("authorization", "-H 'authorization: token ", m(12), "'"),
        case(
            "authorization",
            "{\"Authorization\": \"Basic ",
            "dTpw".to_owned(),
            "\"}",
        ),
        case("authorization", "Authorization: ", m(30), ""),
        case(
            "authorization",
            "Authorization: Digest ",
            "username=\"a\", response=\"b\"".to_owned(),
            "",
        ),
        case("bearer-token", "with bearer ", m(24), " then"),
        case(
            "basic-auth",
            "Basic ",
            "dXNlcjpwYXNzd29yZA==".to_owned(),
            "",
        ),
        case("cookie", "Cookie: ", "sid=abc; theme=dark".to_owned(), ""),
        case("cookie", "-H 'Set-Cookie: ", "a=b".to_owned(), "' x"),
        case(
            "netrc-password",
            "machine h login u password ",
            "hunter2".to_owned(),
            "\n",
        ),
        case(
            "curl-user",
            "curl -s -u user:",
            "hunter2".to_owned(),
            " https://h",
        ),
        case("sshpass", "sshpass -p ", "hunter2".to_owned(), " ssh h"),
        case(
            "sshpass",
            "sshpass -p'",
            "hun ter".to_owned(),
            "' ssh -p 22 h",
        ),
        case("secret", "PASSWORD=", "hunter2".to_owned(), " run"),
        case("secret", "TOKEN=$'", "abc".to_owned(), "' run"),
        case(
            "secret",
            "wget --password=",
            "hunter2".to_owned(),
            " https://h",
        ),
        case(
            "flag",
            "wget --http-password ",
            "hunter2".to_owned(),
            " https://h",
        ),
        case(
            "secret",
            "{\"env\": {\"DB_PASS\": \"",
            "hunter2".to_owned(),
            "\"}}",
        ),
        case("secret", "export DB_PASS='", "a b".to_owned(), "'"),
        case("secret", "GITHUB_TOKEN=", "abc".to_owned(), " gh pr list"),
        case("secret", "api_key: \"", "abc".to_owned(), "\""),
        case("secret", "{\"password\":\"", "swordfish".to_owned(), "\"}"),
        case(
            "secret",
            "{\\\"password\\\": \\\"",
            "swordfish".to_owned(),
            "\\\"}",
        ),
        case("secret", "password: ", "swordfish".to_owned(), "\nuser: me"),
        case("secret", "secretKey = '", m(8), "'"),
        case("secret", "clientSecret => \"", m(8), "\""),
        case("secret", "aws_secret_access_key = ", m(40), ""),
        case("secret", "https://h/x?access_token=", m(10), "&y=1"),
        case("secret", "Server=h;Password=", "hunter2".to_owned(), ";x=1"),
        case("secret", "x-api-key: ", m(16), ""),
        case("secret", "--api-key=", "abc".to_owned(), " x"),
        case(
            "secret",
            "os.environ[\"TOKEN\"] = \"",
            "abc".to_owned(),
            "\"",
        ),
        case("secret", "session_key=", m(32), ""),
        case("secret", "some_key: ", m(32), ""),
        case("secret", "sessionKey: '", m(32), "'"),
        case("flag", "tool --password ", "hunter2".to_owned(), " x"),
        case("flag", "tool --token '", "abc".to_owned(), "' x"),
        case("flag", "[\"--client-secret\", \"", "abc".to_owned(), "\"]"),
    ]
}

#[test]
fn every_expression_compiles() {
    let redactor = Redactor::shared();
    assert_eq!(redactor.rules.len(), rules::RULES.len());
    assert!(redactor.finders.are_complete() && redactor.marker.is_some());
    assert!(redactor.pem.is_complete() && redactor.shell.is_complete());
}

#[test]
fn secrets_are_redacted_and_nothing_else() {
    for (rule, before, secret, after) in secrets() {
        let whole = format!("{before}{secret}{after}");
        assert_eq!(
            text(&whole),
            format!("{before}[redacted:{rule}]{after}"),
            "{whole}"
        );
    }
}

#[test]
fn every_rule_has_a_case() {
    let cases = secrets();
    for rule in rules::RULES {
        let untested = ["age-key", "crates-io-token"];
        assert!(
            untested.contains(&rule.id) || cases.iter().any(|c| c.0 == rule.id),
            "{}",
            rule.id
        );
    }
}

#[test]
fn keys_of_rarer_kinds_are_redacted() {
    let age = format!("AGE-SECRET-KEY-1{}", upper(58));
    assert_eq!(text(&age), "[redacted:age-key]");
    let crates = format!("cio{}", made_up(32));
    assert_eq!(text(&crates), "[redacted:crates-io-token]");
}

#[test]
fn private_keys_go_as_a_block() {
    let (kind, body) = ("PRIVATE KEY", made_up(64));
    let block = format!("-----BEGIN RSA {kind}-----\n{body}\n{body}\n-----END RSA {kind}-----");
    assert_eq!(text(&format!("a {block} b")), "a [redacted:private-key] b");
    let two = format!("{block}\nx\n{block}");
    assert_eq!(
        text(&two),
        "[redacted:private-key]\nx\n[redacted:private-key]"
    );
    let escaped = block.replace('\n', "\\n");
    assert_eq!(
        text(&format!("\"{escaped}\"")),
        "\"[redacted:private-key]\""
    );
    let cut = format!("-----BEGIN {kind}-----\n{body}\n{body}\n");
    assert_eq!(text(&cut), "[redacted:private-key]\n");
    let mention = format!("a file that starts with -----BEGIN {kind}----- is a key");
    assert_eq!(text(&mention), mention);
    let public = format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----");
    assert_eq!(text(&public), public);
}

#[test]
fn ordinary_text_stays() {
    let image = format!("data:image/png;base64,{}", made_up(4000).replace('_', "+"));
    let lines = [
        "The password must be changed every 90 days; ask the owner for the token.",
        "Use the --token flag to pass a token, or --password with a value.",
        "Authorization is required. Basic understanding of bearer tokens helps.",
        "Authorization: required",
        "commit e83c5163316f89bfbde7d9ab23ca2e25604af290",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "cache-key: e83c5163316f89bfbde7d9ab23ca2e25604af290",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "request_key=550e8400-e29b-41d4-a716-446655440000",
        "/home/me/projects/token/secret/password.rs",
        "cat ~/.config/tool/api_key.txt",
        "PRIVATE_KEY=/etc/ssl/private/server.key",
        "--password-file /run/secrets/db",
        "docker login --password-stdin",
        "PWD=/home/me OLDPWD=/tmp",
        "TOKEN=$TOKEN run",
        "TOKEN=${TOKEN} run",
        "TOKEN=$(cat file) run",
        "token = get_token(user)",
        "token=self.token",
        "let token = lexer.next();",
        "password: String,",
        "pub password: Option<String>,",
        "if token == other {",
        "max_tokens=4096, tokens: 12",
        "token=1",
        "eos_token=\"</s>\"",
        "password = None",
        "\"secret\": null",
        "api_key=<your key>",
        "api_key=***",
        "password: ********",
        "http://host:8080/path@x",
        "https://example.com/a?b=c@d",
        "git@github.com:owner/name.git",
        "ssh://git@github.com/owner/name.git",
        "http://user:${PASS}@host",
        "user:1000 docker run --user 1000:1000 img",
        "curl -u \"$USER:$TOKEN\" https://h",
        "curl -u \"$user:$token\" https://h",
        "curl -u ${USER}:${TOKEN} https://h",
        "curl -u \"$(cat user):$(cat pass)\" https://h",
        "curl -u user https://h -o out:1",
        "curl --proxy http://h:80 --user-agent a:b https://h",
        "mysql -p db",
        "mysql -u root -p\"$DB_PASS\" db",
        "mysqldump -p$db_pass db",
        "docker run --name mysql -p3306:3306 mysql:8",
        "cp -p file other",
        "tar -pxf a.tar",
        "mkdir -p dir",
        "docker run -p 80:80 img",
        "docker run -p 80:80 img login",
        "docker login -u me -p \"$PASS\" registry",
        "docker login registry; docker run -p 8080 img",
        "ssh -p 22 host",
        "sshpass -e ssh -p 22 host",
        "sshpass -f file ssh -p 22 host",
        "redis-cli -a \"$REDIS\" ping",
        "redis-cli -h host -n 1 ping",
        "openssl x -passin env:PASS -passout file:/run/pass -in a",
        "aws configure set region eu-west-1",
        "aws configure set aws_secret_access_key $KEY",
        "git config user.name me",
        "echo hello | sudo tee file",
        "echo hello | sudo sort -S 1G",
        "echo hello | cat; sudo -S ls",
        "echo \"$PASS\" | sudo -S ls",
        "echo a || sudo -S ls",
        "printf '%s\\n' \"$PASS\" | sudo -S ls",
        "TOKEN=$'' run",
        "mysql.sock -pX, my-curl -u a:b, /var/lib/mysql -pxf",
        "The mysql client takes -p, the docker login command -p.",
        "ssh-keygen -t ed25519 -N '' -f key",
        "ssh-keygen -N \"$PASS\" -f key",
        "smbclient -U ann //h/share",
        "http -a \"$USER:$TOKEN\" https://h",
        "lftp -u ann ftp.example.com",
        "security find-generic-password -s s -w",
        "nmcli dev wifi connect home --ask",
        "7z a -mx=9 a.7z d",
        "rar a a.rar d",
        "twine check dist/*",
        "kubectl create secret generic s --from-file=./token",
        "kubectl get secret s -o yaml",
        "git log --author=token --grep 'secret key'",
        "grep -rn 'password' src | head",
        "rg -i 'api_key|secret_key' --type py",
        "SECRET_KEY_BASE=$(cat base) run",
        "const token_type = \"Bearer\";",
        "token_value: String,",
        "let api_key_test = env(\"KEY\");",
        "Private-Lines: 14",
        "private key of the host is read from a file",
        "sort -k2 -t: /etc/passwd",
        "sl.rs, pat.x, pul-request, secret_santa_list",
        "9f86d081884c7d659f86d081884c7d65-usual",
        "MODULE.name.with_several_parts_that_are_words",
        "redis-cli -a is not safe",
        "class=\"sk-fading-circle-animation-wrapper\"",
        "ghp_short sk-short hf_x npm_config_cache",
        "AKIA is a prefix",
        "the key: value pairs, key=value",
        "monkey=banana keyboard: qwerty",
        "std::collections::HashMap<String, Vec<u8>>",
        "expected `;`, found `}` at src/token.rs:12:5",
        "cookie: chocolate",
        "Grüße, 漢字, 🦀 secret ingredient",
        image.as_str(),
    ];
    for line in lines {
        assert_eq!(text(line), line);
    }
}

#[test]
fn clean_text_is_borrowed() {
    assert!(matches!(
        Redactor::shared().text("plain"),
        Cow::Borrowed("plain")
    ));
}

#[test]
fn markers_stay_and_hide_nothing() {
    let marked = "TOKEN=[redacted:github-token] x";
    assert_eq!(text(marked), marked);
    assert_eq!(
        text("PASSWORD=[redacted:x]hunter2"),
        "PASSWORD=[redacted:secret]"
    );
}

#[test]
fn several_secrets_in_one_text() {
    let token = format!("ghp_{}", made_up(36));
    let line = format!("TOKEN={token} curl -H 'Authorization: Bearer {token}' --password x1");
    assert_eq!(
        text(&line),
        "TOKEN=[redacted:github-token] curl -H 'Authorization: Bearer [redacted:github-token]' \
         --password [redacted:flag]"
    );
}

#[test]
fn json_values_under_secret_names_are_hidden() {
    let value = json!({
        "command": "PASSWORD=hunter2 run",
        "password": "a",
        "dbPassword": 12345,
        "X-Api-Key": "a",
        "headers": {"Accept": "x"},
        "cookie": ["a", "b"],
        "env": {"GH_TOKEN": "a", "LANG": "C", "PRIVATE_KEY_PEM": "x"},
        "token": null,
        "auth": true,
        "secret": "",
        "key": "ctrl+c",
        "max_tokens": 5,
        "nested": [{"name": "API_TOKEN", "value": "a"}, {"name": "LANG", "value": "C"}],
        "args": ["--token", "a", "--verbose", "b", "--password", "--x"],
    });
    let expected = json!({
        "command": "PASSWORD=[redacted:secret] run",
        "password": "***",
        "dbPassword": "***",
        "X-Api-Key": "***",
        "headers": "***",
        "cookie": "***",
        "env": {"GH_TOKEN": "***", "LANG": "C", "PRIVATE_KEY_PEM": "***"},
        "token": null,
        "auth": true,
        "secret": "",
        "key": "ctrl+c",
        "max_tokens": 5,
        "nested": [{"name": "API_TOKEN", "value": "***"}, {"name": "LANG", "value": "C"}],
        "args": ["--token", "***", "--verbose", "b", "--password", "--x"],
    });
    let redacted = Redactor::shared().value(&value);
    assert_eq!(redacted, expected);
    assert_eq!(Redactor::shared().value(&redacted), expected);
}

#[test]
fn deep_json_is_cut_off() {
    let mut value = json!("x");
    for _ in 0..2 * crate::limits::MAX_REDACT_DEPTH {
        value = json!([value]);
    }
    let text = Redactor::shared().value(&value).to_string();
    assert!(text.contains("***"), "{text}");
}

#[test]
fn names_of_secrets() {
    for name in [
        "password",
        "PASSWORD",
        "db_password",
        "userPassword",
        "password2",
        "passwordConfirm",
        "token",
        "accessToken",
        "GITHUB_TOKEN",
        "api-key",
        "apiKey",
        "APIKey",
        "x-api-key",
        "secret",
        "client_secret",
        "authorization",
        "Proxy-Authorization",
        "auth",
        "cookie",
        "Set-Cookie",
        "private_key",
        "headers",
        "credentials",
        "aws_secret_access_key",
        "pass",
        "DB_PASS",
        "pwd",
    ] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in [
        "",
        "path",
        "command",
        "key",
        "keys",
        "tokens",
        "max_tokens",
        "tokenizer",
        "author",
        "compass",
        "bypass",
        "nonce",
        "folder",
        "header",
        "content",
        "secretary",
        "authority",
    ] {
        assert!(!is_secret_name(name), "{name}");
    }
}

/// Texts made of pieces that matter to the rules.
fn secretive() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("token".to_owned()),
        Just("PASSWORD".to_owned()),
        Just("key".to_owned()),
        Just("=".to_owned()),
        Just(": ".to_owned()),
        Just("\"".to_owned()),
        Just("'".to_owned()),
        Just("\\".to_owned()),
        Just(" ".to_owned()),
        Just("\n".to_owned()),
        Just("--".to_owned()),
        Just("https://".to_owned()),
        Just(":".to_owned()),
        Just("@".to_owned()),
        Just("/".to_owned()),
        Just("Authorization: ".to_owned()),
        Just("Bearer ".to_owned()),
        Just("Basic ".to_owned()),
        Just("Cookie: a=".to_owned()),
        Just("-----BEGIN PRIVATE KEY-----".to_owned()),
        Just("-----END PRIVATE KEY-----".to_owned()),
        Just("[redacted:x]".to_owned()),
        Just("[redacted:".to_owned()),
        Just("]".to_owned()),
        Just("é".to_owned()),
        Just("🦀".to_owned()),
        Just("AKIA".to_owned()),
        Just("sk-".to_owned()),
        Just("ghp_".to_owned()),
        Just("eyJ".to_owned()),
        Just(".".to_owned()),
        Just("curl -u a:".to_owned()),
        Just("mysql -p".to_owned()),
        Just("docker login -p ".to_owned()),
        Just("openssl x -passin pass:".to_owned()),
        Just("echo ".to_owned()),
        Just(" | sudo -S ".to_owned()),
        Just(" <<< ".to_owned()),
        Just("aws configure set token ".to_owned()),
        Just("$'".to_owned()),
        Just("`".to_owned()),
        Just("&".to_owned()),
        Just(";".to_owned()),
        Just("$".to_owned()),
        Just("(".to_owned()),
        Just(",".to_owned()),
        Just("-".to_owned()),
        (1_usize..50).prop_map(made_up),
        (1_usize..30).prop_map(upper),
        (1_usize..70).prop_map(hex),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_survived_and_redacting_twice_is_redacting_once(input in any::<String>()) {
        let once = text(&input);
        prop_assert_eq!(text(&once), once);
    }

    #[test]
    fn secretive_text_redacted_twice_is_redacted_once(input in secretive()) {
        let once = text(&input);
        prop_assert_eq!(text(&once), once);
    }

    #[test]
    fn a_token_is_found_wherever_it_stands(before in "[a-z =:\"'(]{0,20}[ =:\"'(]", after in "[ \"')\n][a-z ]{0,20}") {
        let token = format!("ghp_{}", made_up(36));
        let whole = format!("{before}{token}{after}");
        prop_assert!(!text(&whole).contains(&token));
    }

    #[test]
    fn json_redacted_twice_is_redacted_once(key in "[a-zA-Z_-]{0,12}", input in secretive()) {
        let value = json!({
            "env": { key.clone(): input.clone() },
            key: input.clone(),
            "list": [input.clone()],
            "command": "curl",
            "args": ["-u", input.clone(), "docker", "login", "-p", input.clone(), "mysql", format!("-p{input}")],
            "content_base64": input,
        });
        let once = Redactor::shared().value(&value);
        prop_assert_eq!(Redactor::shared().value(&once), once);
    }
}
