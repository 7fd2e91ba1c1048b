//! Secrets with a shape of their own, as a table.

use regex::Regex;

use super::Span;
use super::value::is_random;

/// A secret that is recognised by its shape.
pub(super) struct Rule {
    /// Name in the marker.
    pub(super) id: &'static str,
    /// Expression; its first group is the secret, or the whole match where it has none.
    pub(super) pattern: &'static str,
    /// What the expression alone cannot tell.
    pub(super) accept: fn(&str) -> bool,
}

fn always(_: &str) -> bool {
    true
}

/// A key after a short prefix that ordinary names share: only if it is random.
fn random(secret: &str) -> bool {
    is_random(secret)
}

/// Base64 of `user:password` rather than an ordinary word.
fn mixed(secret: &str) -> bool {
    let tail = secret.get(1..).unwrap_or_default();
    secret.bytes().any(|b| b.is_ascii_digit())
        || (tail.bytes().any(|b| b.is_ascii_uppercase())
            && secret.bytes().any(|b| b.is_ascii_lowercase()))
}

/// A value that is not only a reference to a variable.
fn literal(secret: &str) -> bool {
    !super::value::is_placeholder(secret)
}

/// A user name that is really a token.
fn token_as_user(secret: &str) -> bool {
    is_random(secret) && !super::value::is_digest_or_uuid(secret)
}

const fn rule(id: &'static str, pattern: &'static str) -> Rule {
    checked(id, pattern, always)
}

const fn checked(id: &'static str, pattern: &'static str, accept: fn(&str) -> bool) -> Rule {
    Rule {
        id,
        pattern,
        accept,
    }
}

/// The table; where two rules claim one span, the earlier names it.
///
/// Bounds are ASCII word bounds: the Unicode ones are slow on text that is not ASCII.
pub(super) const RULES: &[Rule] = &[
    rule(
        "aws-access-key",
        r"(?-u:\b)(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?-u:\b)",
    ),
    rule("gcp-api-key", r"(?-u:\b)AIza[0-9A-Za-z_-]{35}"),
    rule(
        "gcp-oauth",
        r"(?-u:\b)(?:ya29\.[0-9A-Za-z_-]{20,}|GOCSPX-[0-9A-Za-z_-]{20,})",
    ),
    rule(
        "azure-key",
        r"(?i:AccountKey|SharedAccessKey|SharedAccessSignature)=([A-Za-z0-9+/%=]{20,})",
    ),
    checked(
        "azure-client-secret",
        r"(?-u:\b)[A-Za-z0-9_~.]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}",
        random,
    ),
    rule(
        "signed-url",
        r#"[?&;](?i-u:x-amz-signature|x-goog-signature|sig|signature)=([^&\s"'<>]{16,})"#,
    ),
    rule(
        "github-token",
        r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    ),
    rule(
        "gitlab-token",
        r"(?-u:\b)gl(?:pat|ptt|dt|rt|cbt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_-]{20,}",
    ),
    rule(
        "slack-token",
        r"(?-u:\b)(?:xox[abceprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,})",
    ),
    rule(
        "webhook-url",
        r"https://(?:hooks\.slack\.com/(?:services|workflows)|(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks)/([A-Za-z0-9_/-]{20,})",
    ),
    checked(
        "anthropic-key",
        r"(?-u:\b)sk-ant-[A-Za-z0-9_-]{20,}",
        random,
    ),
    checked("openai-key", r"(?-u:\b)sk-[A-Za-z0-9_-]{20,}", random),
    rule(
        "stripe-key",
        r"(?-u:\b)(?:(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,})",
    ),
    rule("npm-token", r"(?-u:\b)npm_[A-Za-z0-9]{36}"),
    rule("pypi-token", r"(?-u:\b)pypi-[A-Za-z0-9_-]{50,}"),
    rule(
        "huggingface-token",
        r"(?-u:\b)(?:hf_|api_org_)[A-Za-z0-9]{30,}",
    ),
    rule(
        "sendgrid-key",
        r"(?-u:\b)SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}",
    ),
    rule("telegram-token", r"(?-u:\b)[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    rule("age-key", r"(?-u:\b)AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    rule(
        "service-token",
        concat!(
            r"(?-u:\b)(?:do[opr]_v1_[a-f0-9]{64}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|dapi[a-f0-9]{32}",
            r"|hv[sb]\.[A-Za-z0-9_-]{24,}|dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9._-]{20,}",
            r"|lin_api_[A-Za-z0-9]{32,}|ntn_[A-Za-z0-9]{40,}|rubygems_[a-f0-9]{48}",
            r"|dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}|gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{60,}",
            r"|pplx-[A-Za-z0-9]{40,}|tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]+",
            r"|gl(?:sa|c)_[A-Za-z0-9+/=_]{32,}|ATATT3[A-Za-z0-9_=-]{60,}|figd_[A-Za-z0-9_-]{30,}",
            r"|sq0[a-z]{3}-[A-Za-z0-9_-]{20,}|NRAK-[A-Z0-9]{27}|sntry[su]_[A-Za-z0-9_=+/-]{30,}",
            r"|PMAK-[a-f0-9-]{50,}|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}|nfp_[A-Za-z0-9]{36,}",
            r"|HRKU-[A-Za-z0-9_-]{36,}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}|pul-[a-f0-9]{40}",
            r"|secret_[A-Za-z0-9]{43}|AKCp[A-Za-z0-9]{60,}|CLOJARS_[a-z0-9]{60}|sq[apu]_[a-f0-9]{40}",
            r"|[a-f0-9]{32}-us[0-9]{1,2}(?-u:\b)|fm2_[A-Za-z0-9+/=_-]{60,}|CCIPAT_[A-Za-z0-9_]{30,}",
            r"|tvly-[A-Za-z0-9-]{20,}|lsv2_(?:pt|sk)_[a-f0-9_]{32,}|sl\.[A-Za-z0-9_-]{100,}|1//0[A-Za-z0-9_-]{30,}",
            r"|sbp_[a-f0-9]{40}|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,}|ops_eyJ[A-Za-z0-9_-]{60,})",
        ),
    ),
    checked(
        "discord-token",
        r"(?-u:\b)[MNO][A-Za-z0-9]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
        random,
    ),
    checked(
        "crates-io-token",
        r"(?-u:\b)cio[A-Za-z0-9]{32}(?-u:\b)",
        random,
    ),
    checked("replicate-token", r"(?-u:\b)r8_[A-Za-z0-9]{37}", random),
    rule(
        "jwt",
        r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    ),
    checked(
        "url-password",
        r#"(?i-u:[a-z0-9+.-])://[^\s:/?#@"'<>\[]*:([^\s/?#"'<>]+)@"#,
        literal,
    ),
    checked(
        "url-token",
        r"(?i-u)\bhttps?://([a-z0-9_-]{20,})@",
        token_as_user,
    ),
    rule(
        "authorization",
        r#"(?i-u:\bauthorization\\{0,3}["']?\s{0,4}[:=]\s{0,4}\\{0,3}["']?(?:digest|oauth|hawk|signature|aws4-hmac-sha256)\s+)([^\r\n']{4,})"#,
    ),
    checked(
        "authorization",
        r#"(?i-u:\bauthorization\\{0,3}["']?\s{0,4}[:=]\s{0,4}\\{0,3}["']?(?:bearer|basic|token|apikey|negotiate|ntlm)\s+)([^\s"',;\\]+)"#,
        literal,
    ),
    checked(
        "authorization",
        r#"(?i-u:\bauthorization\\{0,3}["']?\s{0,4}[:=]\s{0,4}\\{0,3}["']?)([^\s"',;\\]{8,})"#,
        not_plain_word,
    ),
    checked(
        "bearer-token",
        r"(?-u)\b(?i:bearer)\s+([A-Za-z0-9._~+/=-]{16,})",
        mixed,
    ),
    checked(
        "basic-auth",
        r"(?-u:\b)[Bb]asic\s+([A-Za-z0-9+/]{12,}={0,2})",
        mixed,
    ),
    rule(
        "cookie",
        r#"(?i-u:\b(?:set-)?cookie\\{0,3}["']?\s{0,4}:\s{0,4}\\{0,3}["']?)([^\s"'=;,\\]+=[^\r\n"'\\]+)"#,
    ),
    rule(
        "private-key",
        r"Private-Lines:\s+[0-9]{1,3}\s+((?:[A-Za-z0-9+/=]{4,76}(?:\r?\n|\\n|$)){1,200})",
    ),
    checked(
        "flag",
        r#"(?-u:\b)nmcli\s[^\r\n]{0,300}?\spassword\s+["']?([^\s"']+)"#,
        literal,
    ),
    checked(
        "netrc-password",
        r"(?-u:\b)machine\s+\S+\s+login\s+\S+\s+password\s+(\S+)",
        literal,
    ),
];

fn not_plain_word(secret: &str) -> bool {
    literal(secret) && super::value::has_letter_and_digit(secret)
}

/// A rule that is ready to run.
#[derive(Debug)]
pub(super) struct Compiled {
    id: &'static str,
    regex: Regex,
    accept: fn(&str) -> bool,
    rank: usize,
}

/// Compiles the table. That every rule compiles is a test's concern.
pub(super) fn compile() -> Vec<Compiled> {
    RULES
        .iter()
        .enumerate()
        .filter_map(|(i, rule)| {
            Some(Compiled {
                id: rule.id,
                regex: Regex::new(rule.pattern).ok()?,
                accept: rule.accept,
                rank: i + 1,
            })
        })
        .collect()
}

impl Compiled {
    /// Adds the secrets of this rule in `text` to `spans`.
    pub(super) fn find(&self, text: &str, spans: &mut Vec<Span>) {
        for captures in self.regex.captures_iter(text) {
            let Some(secret) = captures.get(1).or_else(|| captures.get(0)) else {
                continue;
            };
            if (self.accept)(secret.as_str()) {
                spans.push(Span {
                    range: secret.range(),
                    rule: self.id,
                    rank: self.rank,
                });
            }
        }
    }
}
