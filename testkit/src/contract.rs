//! The machine-readable contract, both directions.

use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::{Endpoint, Exchange};

/// The tunnel's OpenAPI document, compiled.
pub struct Contract {
    document: Value,
    commands: Validator,
    metadata: Validator,
    ack: Validator,
    error: Validator,
    payload: Validator,
    failure: Validator,
}

impl std::fmt::Debug for Contract {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Contract")
    }
}

impl Contract {
    /// Loads the document named by `HANDS_TUNNEL_OPENAPI`, else the one in the folder shared
    /// beside the workspace; none where neither is there.
    pub fn load() -> Option<Self> {
        let named = std::env::var_os("HANDS_TUNNEL_OPENAPI").map(PathBuf::from);
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
        let path = named.unwrap_or_else(|| workspace.join("../shared/data/tunnel-openapi.json"));
        let text = std::fs::read(path).ok()?;
        let document: Value = serde_json::from_slice(&text).expect("the contract is JSON");
        Some(Self::compile(document))
    }

    fn compile(document: Value) -> Self {
        let named = |name: &str| {
            validator(&json!({
                "$ref": format!("#/components/schemas/{name}"),
                "components": document["components"],
            }))
        };
        let payload = &document["components"]["schemas"]["TunnelResponsePayload"];
        let failure = payload["properties"]["resp_json"]["x-tunnel-failure-schema"].clone();
        Self {
            commands: named("PolledCommandList"),
            metadata: named("TunnelClientMetadata"),
            ack: named("TunnelResponseAck"),
            error: named("APIErrorResponse"),
            payload: named("TunnelResponsePayload"),
            failure: validator(&failure),
            document,
        }
    }

    /// What in an exchange breaks the contract; empty where nothing does.
    pub fn check(&self, exchange: &Exchange) -> Vec<String> {
        let mut found = Vec::new();
        let place = format!("{} {}", exchange.method, exchange.path);
        let Some(endpoint) = exchange.endpoint else {
            return vec![format!("{place}: not a path of the contract")];
        };
        self.check_request(endpoint, exchange, &mut found);
        if !exchange.off_contract {
            self.check_answer(endpoint, exchange, &mut found);
        }
        found
            .iter()
            .map(|text| format!("{place}: {text}"))
            .collect()
    }

    fn operation(&self, endpoint: Endpoint) -> &Value {
        let paths = &self.document["paths"];
        match endpoint {
            Endpoint::Metadata => &paths["/v1/tunnels/{tunnel_id}"]["get"],
            Endpoint::Poll => &paths["/v1/tunnels/{tunnel_id}/poll"]["get"],
            Endpoint::Response => &paths["/v1/tunnels/{tunnel_id}/response"]["post"],
        }
    }

    fn check_request(&self, endpoint: Endpoint, exchange: &Exchange, found: &mut Vec<String>) {
        let parameters = self.operation(endpoint)["parameters"].as_array();
        for parameter in parameters.into_iter().flatten() {
            check_parameter(parameter, exchange, found);
        }
        for pair in exchange.query.split('&').filter(|pair| !pair.is_empty()) {
            let name = pair.split('=').next().unwrap_or_default();
            let known = parameters_named(self.operation(endpoint), "query");
            if !known.iter().any(|known| known == name) {
                found.push(format!("query parameter {name} is not in the contract"));
            }
        }
        match exchange.header("authorization") {
            Some(value) if value.starts_with("Bearer ") => {}
            _ => found.push("no bearer authorization".into()),
        }
        for name in [
            "x-tunnel-client-name",
            "x-tunnel-client-version",
            "x-tunnel-client-instance-id",
        ] {
            if exchange.header(name).is_none_or(str::is_empty) {
                found.push(format!("no header {name}"));
            }
        }
        if let Some(text) = exchange.header("x-tunnel-mcp-server-info") {
            check_server_info(text, found);
        }
        // A body over the service's limit is not kept.
        if endpoint == Endpoint::Response && exchange.status != Some(413) {
            self.check_payload(exchange, found);
        }
    }

    fn check_payload(&self, exchange: &Exchange, found: &mut Vec<String>) {
        let Some(body) = exchange.json() else {
            found.push("the body is not JSON".into());
            return;
        };
        report(&self.payload, &body, "body", found);
        if exchange.header("content-type") != Some("application/json") {
            found.push("content-type is not application/json".into());
        }
        if body.get("shard_token").is_some() {
            found.push("the shard token is in the body".into());
        }
        let failure = &body["resp_json"]["error"]["data"]["tunnel_failure"];
        if !failure.is_null() {
            report(&self.failure, failure, "tunnel_failure", found);
            if body["resp_json"]["error"]["code"] != json!(-32603) {
                found.push("a failure made up by the client is not -32603".into());
            }
        }
        let kind = body["resp_type"].as_str().unwrap_or("jsonrpc_response");
        let carries = body.get("resp_json").is_some_and(|json| !json.is_null());
        if carries != matches!(kind, "jsonrpc_response" | "jsonrpc_notify") {
            found.push(format!("resp_json present = {carries} in a {kind}"));
        }
    }

    fn check_answer(&self, endpoint: Endpoint, exchange: &Exchange, found: &mut Vec<String>) {
        let Some(status) = exchange.status else {
            return;
        };
        let documented = &self.operation(endpoint)["responses"][status.to_string()];
        if documented["content"].is_null() {
            return;
        }
        let Ok(body) = serde_json::from_slice::<Value>(&exchange.answer) else {
            found.push(format!("the answer {status} is not JSON"));
            return;
        };
        let schema = match (endpoint, status) {
            (_, 300..) => &self.error,
            (Endpoint::Metadata, _) => &self.metadata,
            (Endpoint::Poll, _) => &self.commands,
            (Endpoint::Response, _) => &self.ack,
        };
        report(schema, &body, "answer", found);
    }
}

fn validator(schema: &Value) -> Validator {
    jsonschema::validator_for(schema).expect("the contract's schema compiles")
}

fn report(schema: &Validator, value: &Value, what: &str, found: &mut Vec<String>) {
    for error in schema.iter_errors(value) {
        let path = error.instance_path().to_string();
        found.push(format!("{what}{path}: {error}"));
    }
}

fn parameters_named(operation: &Value, place: &str) -> Vec<String> {
    let parameters = operation["parameters"].as_array();
    parameters
        .into_iter()
        .flatten()
        .filter(|parameter| parameter["in"] == place)
        .filter_map(|parameter| parameter["name"].as_str().map(str::to_owned))
        .collect()
}

fn check_parameter(parameter: &Value, exchange: &Exchange, found: &mut Vec<String>) {
    let name = parameter["name"].as_str().unwrap_or_default();
    let value: Option<Value> = match parameter["in"].as_str() {
        Some("header") => exchange
            .header(&name.to_lowercase())
            .map(|text| json!(text)),
        Some("query") => exchange.query.split('&').find_map(|pair| {
            let (key, text) = pair.split_once('=')?;
            let number = text.parse::<i64>().map(|number| json!(number));
            (key == name).then(|| number.unwrap_or_else(|_| json!(text)))
        }),
        _ => return,
    };
    match value {
        Some(value) => report(&validator(&parameter["schema"]), &value, name, found),
        None if parameter["required"] == json!(true) => found.push(format!("no {name}")),
        None => {}
    }
}

/// The rules of the server information that the schema can only tell in words.
fn check_server_info(text: &str, found: &mut Vec<String>) {
    let schema = validator(&json!({
        "type": "object", "additionalProperties": false, "required": ["version", "channels"],
        "properties": {
            "version": {"const": 1},
            "channels": {"type": "array", "maxItems": 32, "items": {
                "type": "object", "additionalProperties": false, "required": ["name"],
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-z0-9_-]+$"},
                    "proc_affinity": {"const": true},
                },
            }},
        },
    }));
    match serde_json::from_str::<Value>(text) {
        Ok(value) => report(&schema, &value, "server info", found),
        Err(error) => found.push(format!("server info is not JSON: {error}")),
    }
}
