//! The HTTP client of the control plane: three requests and how they fail.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use crate::backoff::retry_after;
use crate::file::open_regular;
use crate::limits;
use crate::secret::ApiKey;
use crate::text;
use crate::wire::{self, Address, Command, Skipped};

/// How to reach the control plane.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The host root, with an optional path before `/v1`.
    pub base_url: String,
    /// The tunnel's id.
    pub tunnel_id: String,
    /// The key.
    pub key: ApiKey,
    /// An explicit proxy; without it the environment's.
    pub proxy: Option<String>,
    /// Certificates trusted beside the system's, in PEM.
    pub ca_bundle: Option<std::path::PathBuf>,
    /// Sent as `OpenAI-Organization`.
    pub organization: Option<String>,
    /// How long the service is asked to hold an empty poll.
    pub poll_timeout: Duration,
    /// How long after that the headers must have arrived.
    pub poll_guardrail: Duration,
}

impl Endpoint {
    /// How long after a good poll the next one is late. A poll that may still be answered by its
    /// own deadline is not.
    pub fn stale_after(&self) -> Duration {
        let late = self.poll_guardrail + limits::POLL_ANSWER_SLACK;
        self.poll_timeout + late.max(limits::POLL_STALE_AFTER)
    }
}

/// Why the client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The file of certificates is of no use.
    #[error("reading the certificates in {path}: {reason}")]
    CaBundle {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        reason: String,
    },
    /// Anything else.
    #[error("setting up HTTPS to the control plane: {0}")]
    Client(String),
}

/// How a request failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Trouble {
    /// There was no whole answer.
    #[error("{what}")]
    Network {
        /// What happened.
        what: String,
        /// Whether the service may have seen the request.
        written: bool,
        /// Whether it ran out of time.
        timed_out: bool,
    },
    /// The service answered with an error.
    #[error("the control plane answered {status}{detail}")]
    Status {
        /// The status.
        status: u16,
        /// The error's code and message, or nothing.
        detail: String,
        /// The delay it asked for.
        retry_after: Option<Duration>,
    },
    /// The service's answer could not be read.
    #[error("the control plane's answer cannot be read: {0}")]
    Unreadable(String),
}

impl Trouble {
    /// Whether only the operator can mend it.
    pub fn needs_operator(&self) -> bool {
        matches!(
            self,
            Self::Status {
                status: 401 | 403,
                ..
            }
        )
    }

    /// Whether there is no such thing at the service.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { status: 404, .. })
    }

    /// The delay the service asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// A short word for metrics.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Network {
                timed_out: true, ..
            } => "timeout",
            Self::Network { .. } => "network",
            Self::Unreadable(_) => "unreadable",
            Self::Status { status, .. } => match status {
                401 | 403 => "unauthorized",
                404 => "not_found",
                413 => "too_large",
                429 => "rate_limited",
                500.. => "server_error",
                _ => "client_error",
            },
        }
    }
}

/// The tunnel's record at the service.
#[derive(Debug, Clone, Deserialize)]
pub struct Metadata {
    /// Its id.
    pub id: String,
    /// The name a person gave it.
    #[serde(default)]
    pub name: String,
}

/// What a poll brought.
pub type Polled = Vec<Result<Command, Skipped>>;

/// The client.
#[derive(Debug, Clone)]
pub struct ControlPlane {
    http: reqwest::Client,
    root: String,
    key: ApiKey,
    poll_timeout: Duration,
    poll_guardrail: Duration,
}

impl ControlPlane {
    /// Makes the client; it connects to nothing yet.
    pub fn new(endpoint: &Endpoint) -> Result<Self, SetupError> {
        let root = format!(
            "{}/v1/tunnels/{}",
            endpoint.base_url.trim_end_matches('/'),
            endpoint.tunnel_id
        );
        let mut builder = reqwest::Client::builder()
            .default_headers(default_headers(endpoint)?)
            .user_agent(concat!("hands-tunnel/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(limits::CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(15))
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(tls_config(endpoint.ca_bundle.as_deref())?);
        let url = reqwest::Url::parse(&endpoint.base_url);
        if url.is_ok_and(|url| is_plain_loopback(&url)) {
            // The key would leave this machine in the clear, and nothing listens there for a proxy.
            builder = builder.no_proxy();
        } else if let Some(proxy) = &endpoint.proxy {
            let proxy = reqwest::Proxy::all(proxy.as_str())
                .map_err(|e| SetupError::Client(format!("the proxy {proxy:?}: {e}")))?;
            builder = builder.no_proxy().proxy(proxy);
        }
        let http = builder.build();
        Ok(Self {
            http: http.map_err(|e| SetupError::Client(describe(&e)))?,
            root,
            key: endpoint.key.clone(),
            poll_timeout: endpoint.poll_timeout,
            poll_guardrail: endpoint.poll_guardrail,
        })
    }

    /// Fetches the tunnel's record.
    pub async fn metadata(&self) -> Result<Metadata, Trouble> {
        let request = self.http.get(&self.root).timeout(limits::POST_TIMEOUT);
        let response = self.send(request).await?;
        let body = self.read(response, limits::ERROR_BODY_MAX).await?;
        serde_json::from_slice(&body).map_err(|e| Trouble::Unreadable(e.to_string()))
    }

    /// Waits for commands; none is a normal answer. Calls `answered` once the headers are there.
    pub async fn poll(&self, limit: usize, answered: impl FnOnce()) -> Result<Polled, Trouble> {
        let url = format!(
            "{}/poll?limit={}&timeout_ms={}",
            self.root,
            limit.clamp(1, limits::POLL_LIMIT),
            self.poll_timeout.as_millis().max(1)
        );
        let within = self.poll_timeout + self.poll_guardrail;
        let response = timed(within, "an answer to a poll", self.send(self.http.get(url))).await?;
        // Deadlines count from here: the headers are in, the body is not.
        let received = Instant::now();
        answered();
        if response.status() == reqwest::StatusCode::NO_CONTENT {
            return Ok(Vec::new());
        }
        let read = self.read(response, limits::POLL_BODY_MAX);
        let body = timed(limits::POLL_BODY_TIMEOUT, "a poll's body", read).await?;
        wire::parse_poll(&body, received).map_err(|e| Trouble::Unreadable(e.to_string()))
    }

    /// Posts one answer, once.
    pub async fn post(&self, address: &Address, body: bytes::Bytes) -> Result<(), Trouble> {
        let Ok(mut token) = HeaderValue::from_str(&address.shard_token) else {
            let what = "the command's shard token cannot stand in a header".to_owned();
            return Err(Trouble::Unreadable(what));
        };
        token.set_sensitive(true);
        let within =
            limits::POST_TIMEOUT + Duration::from_secs(body.len() as u64 / limits::POST_RATE_MIN);
        let request = self
            .http
            .post(format!("{}/response", self.root))
            .header("X-Tunnel-Shard-Token", token)
            .header("Content-Type", "application/json")
            .body(body);
        let whole = async {
            let response = self.send(request).await?;
            // Read to its end, so that the connection can be used again.
            let _ = self.read(response, limits::ERROR_BODY_MAX).await;
            Ok(())
        };
        timed(within, "an answer to a post", whole).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, Trouble> {
        let response = request.send().await.map_err(|e| self.network(&e))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let asked = response.headers().get("retry-after");
        let asked = asked.and_then(|value| value.to_str().ok());
        let retry_after = asked.and_then(|text| retry_after(text, SystemTime::now()));
        let read = self.read(response, limits::ERROR_BODY_MAX);
        let body = tokio::time::timeout(limits::NOTIFY_TIMEOUT, read).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        Err(Trouble::Status {
            status: status.as_u16(),
            detail: self.key.redact(&api_detail(&body)),
            retry_after,
        })
    }

    async fn read(&self, mut response: reqwest::Response, max: usize) -> Result<Vec<u8>, Trouble> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.network(&e))? {
            if body.len() + chunk.len() > max {
                return Err(Trouble::Unreadable(format!("its body is over {max} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn network(&self, error: &reqwest::Error) -> Trouble {
        Trouble::Network {
            // A certificate's names, for one, are the other side's words.
            what: text::plain(&self.key.redact(&describe(error)), limits::MESSAGE_MAX),
            written: !error.is_connect(),
            timed_out: error.is_timeout(),
        }
    }
}

/// Whether it is a server on this machine, asked without TLS.
pub(crate) fn is_plain_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let address = host.parse::<std::net::IpAddr>();
    url.scheme() == "http"
        && (host == "localhost" || address.is_ok_and(|address| address.is_loopback()))
}

async fn timed<T>(
    within: Duration,
    what: &str,
    work: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(within, work).await {
        Ok(result) => result,
        Err(_) => Err(Trouble::Network {
            what: format!("waited {within:?} in vain for {what}"),
            written: true,
            timed_out: true,
        }),
    }
}

/// An error with all its causes, and of the URL whom it names: the rest is the tunnel's.
fn describe(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    if let Some(url) = error.url() {
        let who = url.origin().ascii_serialization();
        text = text.replace(&format!(" for url ({url})"), &format!(" to {who}"));
    }
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// `: code: message` of the API's error body; nothing where there is none.
fn api_detail(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Body {
        error: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        message: Option<String>,
        code: Option<String>,
    }
    let Ok(Body { error }) = serde_json::from_slice(body) else {
        return String::new();
    };
    let parts = [error.code, error.message];
    let text = parts
        .into_iter()
        .flatten()
        .fold(String::new(), |mut text, part| {
            text.push_str(": ");
            text.push_str(&part);
            text
        });
    text::plain(&text, limits::SERVICE_TEXT_MAX)
}

fn default_headers(endpoint: &Endpoint) -> Result<HeaderMap, SetupError> {
    let mut headers = HeaderMap::new();
    let bearer = format!("Bearer {}", endpoint.key.expose());
    let mut bearer = HeaderValue::from_str(&bearer)
        .map_err(|_| SetupError::Client("the API key cannot stand in a header".into()))?;
    bearer.set_sensitive(true);
    headers.insert("authorization", bearer);
    let info = r#"{"version":1,"channels":[{"name":"main","proc_affinity":true}]}"#;
    let instance = uuid::Uuid::now_v7().to_string();
    let mut fields = vec![
        ("accept", "application/json"),
        ("x-tunnel-client-name", limits::CLIENT_NAME),
        ("x-tunnel-client-version", env!("CARGO_PKG_VERSION")),
        ("x-tunnel-client-instance-id", instance.as_str()),
        ("x-tunnel-mcp-server-info", info),
    ];
    if let Some(organization) = &endpoint.organization {
        fields.push(("openai-organization", organization));
    }
    for (name, value) in fields {
        let value = HeaderValue::from_str(value)
            .map_err(|_| SetupError::Client(format!("{name} cannot be {value:?}")))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

/// TLS by rustls and ring, trusting what the system trusts and the extra certificates.
fn tls_config(ca_bundle: Option<&Path>) -> Result<rustls::ClientConfig, SetupError> {
    let failed = |e: rustls::Error| SetupError::Client(e.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let extra = match ca_bundle {
        Some(path) => read_certificates(path)?,
        None => Vec::new(),
    };
    let verifier =
        rustls_platform_verifier::Verifier::new_with_extra_roots(extra, Arc::clone(&provider));
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier.map_err(failed)?))
        .with_no_client_auth())
}

fn read_certificates(
    path: &Path,
) -> Result<Vec<rustls::pki_types::CertificateDer<'static>>, SetupError> {
    use rustls::pki_types::pem::PemObject;
    let failed = |reason: String| SetupError::CaBundle {
        path: path.to_owned(),
        reason,
    };
    let mut text = Vec::new();
    open_regular(path)
        .and_then(|file| file.take(limits::CA_BUNDLE_MAX).read_to_end(&mut text))
        .map_err(|e| failed(e.to_string()))?;
    let found = rustls::pki_types::CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| failed(e.to_string()))?;
    if found.is_empty() {
        return Err(failed("there is no certificate in it".into()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_error_is_told_in_one_line() {
        let body = br#"{"error":{"message":"no\nuse","type":"x","code":"tunnel_use_forbidden"}}"#;
        assert_eq!(api_detail(body), ": tunnel_use_forbidden: nouse");
        assert_eq!(api_detail(b"<html>"), "");
    }

    #[test]
    fn a_bundle_without_certificates_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = read_certificates(file.path()).unwrap_err();
        assert!(error.to_string().contains("no certificate"), "{error}");
    }

    #[test]
    fn tls_can_be_set_up() {
        assert!(tls_config(None).is_ok());
    }
}
