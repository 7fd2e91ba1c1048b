//! Secrets in the arguments of known programs, in environments, and in encoded content.

use serde_json::json;

use super::{Redactor, hex, made_up, text};

/// Rule, text before the secret, text after it; the secret is `hunter2`.
const ARGUMENTS: &[(&str, &str, &str)] = &[
    ("curl-user", "curl --user=user:", " https://h"),
    ("curl-user", "curl --user user:", " https://h"),
    ("curl-user", "curl -uuser:", " https://h"),
    ("curl-user", "curl -sSu user:", " https://h"),
    ("curl-user", "curl 'https://h/?a=1&b=2' -u 'user:", "'"),
    ("curl-user", "curl -u user:'", "' https://h"),
    ("curl-user", "curl -u $'user:", "' https://h"),
    ("curl-user", "curl -u \"$USER:", "\" https://h"),
    ("curl-user", "curl -U proxy:", " https://h"),
    (
        "curl-user",
        "curl -X POST \\\n  -u user:",
        " \\\n https://h",
    ),
    ("curl-user", "cd x && /usr/bin/curl 2>&1 -u user:", "; ls"),
    ("curl-user", "sh -c \"curl -u user:", "\""),
    ("curl-user", "sh -c 'curl -u \"user:", "\"'"),
    ("curl-user", "x=$(curl -u user:", ")"),
    ("curl-user", "`curl -u user:", "`"),
    ("curl-user", "{\"cmd\":\"curl -u \\\"user:", "\\\" h\"}"),
    ("curl-user", "run([\"curl\", \"-u\", \"user:", "\"])"),
    ("curl-user", "[\"curl\",\"-u\",\"user:", "\"]"),
    ("curl-user", "echo 'x' | curl -u user:", " h"),
    ("flag", "mysql -p", " db"),
    ("flag", "mysql -uroot -p'", "' db"),
    ("flag", "mysqldump -p", " db > out.sql"),
    ("flag", "docker exec -i c mysql -p", " db < in.sql"),
    ("flag", "ssh h \"mysql -p", "\" | less"),
    ("flag", "sudo -u root mariadb -p", ""),
    ("flag", "redis-cli -h host -a ", " ping"),
    ("flag", "redis-cli --pass ", " ping"),
    ("flag", "docker login -u me -p ", " registry"),
    ("flag", "podman login -p=", " registry"),
    ("flag", "docker login -p\"", "\" registry"),
    ("flag", "aws configure set aws_secret_access_key ", ""),
    (
        "flag",
        "aws configure set profile.x.aws_session_token '",
        "'",
    ),
    ("flag", "npm config set //registry/:_authToken ", ""),
    ("flag", "unzip -P ", " a.zip"),
    ("flag", "zip -P ", " -r a.zip d"),
    ("flag", "7z a -p", " a.7z d"),
    ("flag", "rar a -p", " a.rar d"),
    ("flag", "twine upload -u me -p ", " dist/*"),
    ("flag", "ssh-keygen -t ed25519 -N ", " -f key"),
    ("flag", "ssh-keygen -p -P '", "' -N '' -f key"),
    ("flag", "smbclient -U ann%", " //h/share"),
    ("flag", "lftp -u ann,", " ftp.example.com"),
    ("flag", "http -a ann:", " https://h"),
    ("flag", "mosquitto_pub -u me -P ", " -t a -m b"),
    ("flag", "security add-generic-password -a me -s s -w ", ""),
    ("flag", "security unlock-keychain -p ", " login.keychain"),
    ("flag", "nmcli dev wifi connect home password ", ""),
    ("flag", "gpg --batch --passphrase ", " -d a.gpg"),
    ("flag", "ldapsearch -D cn=a -w ", " -b dc=x"),
    (
        "flag",
        "az login --service-principal -u id -p ",
        " --tenant t",
    ),
    (
        "secret",
        "kubectl create secret generic s --from-literal=password=",
        "",
    ),
    ("secret", "helm upgrade r c --set db.password=", " --wait"),
    ("secret", "docker build --build-arg NPM_TOKEN=", " ."),
    ("secret", "docker run -e DB_PASSWORD=", " img"),
    ("secret", "heroku config:set API_SECRET=", ""),
    ("secret", "vault kv put kv/x password=", ""),
    ("secret", "export SECRET_KEY_BASE=", ""),
    ("secret", "API_KEY_PROD=", " ./run"),
    (
        "secret",
        "ansible-playbook -e ansible_become_pass=",
        " site.yml",
    ),
    ("secret", "https://h/cb?client_secret=", "&x=1"),
    (
        "authorization",
        "git -c http.extraheader=\"AUTHORIZATION: bearer ",
        "\" fetch",
    ),
    (
        "authorization",
        "curl -H 'Proxy-Authorization: Basic ",
        "' h",
    ),
    ("openssl-pass", "openssl rsa -in a -passin pass:", " -out b"),
    ("openssl-pass", "openssl pkcs12 -passout 'pass:", "'"),
    ("openssl-pass", "openssl enc -aes-256-cbc -k ", " -in a"),
    ("stdin-password", "echo ", " | sudo -S ls"),
    ("stdin-password", "echo -n '", "' | sudo -kS -p '' ls"),
    ("stdin-password", "echo \"", "\"|sudo -u root -S ls"),
    ("stdin-password", "printf '%s\\n' ", " | sudo --stdin ls"),
    (
        "stdin-password",
        "echo ",
        " | docker login -u me --password-stdin",
    ),
    ("stdin-password", "sudo -S ls <<< ", ""),
    ("stdin-password", "sudo -S ls <<<'", "'"),
];

#[test]
fn arguments_of_known_programs_are_redacted() {
    for (rule, before, after) in ARGUMENTS {
        let whole = format!("{before}hunter2{after}");
        let expected = format!("{before}[redacted:{rule}]{after}");
        assert_eq!(text(&whole), expected, "{whole}");
    }
}

#[test]
fn every_secret_of_a_command_is_redacted() {
    assert_eq!(
        text("sshpass -p one1 ssh -p 22 h 'mysql -ptwo2 db' && curl -u a:b1 -U c:d1 h"),
        "sshpass -p [redacted:sshpass] ssh -p 22 h 'mysql -p[redacted:flag] db' && \
         curl -u a:[redacted:curl-user] -U c:[redacted:curl-user] h"
    );
}

#[test]
fn argument_lists_are_read_as_commands() {
    let value = json!({
        "argv": ["mysql", "-phunter2", "-u", "root", "db"],
        "call": {"command": "curl", "args": ["-u", "user:hunter2", "https://h"]},
        "run": ["docker", "run", "-p", "80:80", "--user", "1:1"],
        "args": ["-u", "user:name"],
    });
    let expected = json!({
        "argv": ["mysql", "-p[redacted:flag]", "-u", "root", "db"],
        "call": {"command": "curl", "args": ["-u", "user:[redacted:curl-user]", "https://h"]},
        "run": ["docker", "run", "-p", "80:80", "--user", "1:1"],
        "args": ["-u", "user:name"],
    });
    let redacted = Redactor::shared().value(&value);
    assert_eq!(redacted, expected);
    assert_eq!(Redactor::shared().value(&redacted), expected);
}

#[test]
fn variables_of_an_environment_are_hidden_by_their_names() {
    let value = json!({"env": {
        "DB_PASS": "x1", "DBPASS": "x1", "SECRET_KEY_BASE": "x1", "TOKEN_OF_BOT": "x1", "DB_PW": "x1",
        "APP_KEY": made_up(32), "HEX_KEY": hex(64), "SORT_KEY": "name", "KEY": "f5",
        "SSL_KEY": "/etc/ssl/x.key", "TOKEN_FILE": "/run/token", "SSH_ASKPASS": "ask", "PWD": "/home/me",
        "MAX_TOKENS": "5", "TOKEN_LIMIT": "5", "PASS_ALL": "true", "LANG": "C", "COMMIT": hex(40),
    }});
    let expected = json!({"env": {
        "DB_PASS": "***", "DBPASS": "***", "SECRET_KEY_BASE": "***", "TOKEN_OF_BOT": "***", "DB_PW": "***",
        "APP_KEY": "***", "HEX_KEY": "***", "SORT_KEY": "name", "KEY": "f5",
        "SSL_KEY": "/etc/ssl/x.key", "TOKEN_FILE": "/run/token", "SSH_ASKPASS": "ask", "PWD": "/home/me",
        "MAX_TOKENS": "5", "TOKEN_LIMIT": "5", "PASS_ALL": "true", "LANG": "C", "COMMIT": hex(40),
    }});
    assert_eq!(Redactor::shared().value(&value), expected);
}

#[test]
fn base64_that_holds_a_secret_is_replaced() {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
    let redacted = |encoded: String| {
        let once = Redactor::shared().value(&json!({"content_base64": encoded}));
        assert_eq!(Redactor::shared().value(&once), once);
        once["content_base64"].as_str().unwrap().to_owned()
    };
    let secret = "a line\nPASSWORD=hunter2\n\u{ff}";
    assert_eq!(redacted(STANDARD.encode(secret)), "[redacted:base64]");
    assert_eq!(
        redacted(STANDARD_NO_PAD.encode(secret)),
        "[redacted:base64]"
    );
    assert_eq!(redacted(URL_SAFE.encode(secret)), "[redacted:base64]");
    let cut = STANDARD.encode(format!("{secret}{}", "x".repeat(100)));
    assert_eq!(
        redacted(cut[..cut.len() - 3].to_owned()),
        "[redacted:base64]"
    );
    let lines = STANDARD.encode(secret).replace("U", "U\r\n");
    assert_eq!(redacted(lines), "[redacted:base64]");
    for plain in ["", "hello", "a line without any"] {
        let encoded = STANDARD.encode(plain);
        assert_eq!(redacted(encoded.clone()), encoded);
    }
    let far = STANDARD.encode(format!(
        "{}{secret}",
        " ".repeat(crate::limits::MAX_REDACT_BASE64)
    ));
    assert_eq!(redacted(far.clone()), far);
}

#[test]
fn long_commands_are_read_in_linear_time() {
    for piece in [
        "curl ",
        "echo x|",
        "\"curl ",
        "curl '",
        "mysql \"a ",
        "sudo <<<",
    ] {
        let long = piece.repeat(100_000 / piece.len());
        let start = std::time::Instant::now();
        let _ = text(&long);
        assert!(start.elapsed().as_secs() < 10, "{piece}");
    }
}
