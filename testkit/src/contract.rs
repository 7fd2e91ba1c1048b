//! The machine-readable contract, both directions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::{Endpoint, Exchange};

/// One parameter of an operation.
struct Parameter {
    name: String,
    place: Place,
    required: bool,
    schema: Validator,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    Query,
}

/// One operation: its parameters, and what the document says of its answers.
struct Operation {
    parameters: Vec<Parameter>,
    responses: Value,
}

/// The tunnel's OpenAPI document, compiled.
pub struct Contract {
    operations: HashMap<Endpoint, Operation>,
    server_info: Validator,
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
        let operations = [Endpoint::Metadata, Endpoint::Poll, Endpoint::Response]
            .map(|endpoint| (endpoint, operation(&document, endpoint)));
        Self {
            operations: operations.into(),
            server_info: server_info(),
            commands: named("PolledCommandList"),
            metadata: named("TunnelClientMetadata"),
            ack: named("TunnelResponseAck"),
            error: named("APIErrorResponse"),
            payload: named("TunnelResponsePayload"),
            failure: validator(&failure),
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

    fn check_request(&self, endpoint: Endpoint, exchange: &Exchange, found: &mut Vec<String>) {
        let parameters = &self.operations[&endpoint].parameters;
        for parameter in parameters {
            parameter.check(exchange, found);
        }
        for pair in exchange.query.split('&').filter(|pair| !pair.is_empty()) {
            let name = pair.split('=').next().unwrap_or_default();
            let known = |known: &Parameter| known.place == Place::Query && known.name == name;
            if !parameters.iter().any(known) {
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
            match serde_json::from_str::<Value>(text) {
                Ok(value) => report(&self.server_info, &value, "server info", found),
                Err(error) => found.push(format!("server info is not JSON: {error}")),
            }
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
        let documented = &self.operations[&endpoint].responses[status.to_string()];
        // The document leaves out the errors of what stands before the service (500, 502, 504);
        // they are answered in the same form.
        if status < 400 && documented.is_null() {
            found.push(format!("an answer {status} is not in the contract"));
            return;
        }
        if status < 400 && documented["content"].is_null() {
            if !exchange.answer.is_empty() {
                found.push(format!("the answer {status} has a body"));
            }
            return;
        }
        if exchange.answer_header("content-type") != Some("application/json") {
            found.push(format!("the answer {status} is not application/json"));
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
        check_error_code(documented, &body, found);
    }
}

/// Where the document lists the stable codes of a status, an answer has one of them or none.
fn check_error_code(documented: &Value, body: &Value, found: &mut Vec<String>) {
    let code = &body["error"]["code"];
    if let Some(codes) = documented["x-tunnel-error-codes"].as_array()
        && !code.is_null()
        && !codes.contains(code)
    {
        found.push(format!("the code {code} is not one of {codes:?}"));
    }
}

fn operation(document: &Value, endpoint: Endpoint) -> Operation {
    let paths = &document["paths"];
    let described = match endpoint {
        Endpoint::Metadata => &paths["/v1/tunnels/{tunnel_id}"]["get"],
        Endpoint::Poll => &paths["/v1/tunnels/{tunnel_id}/poll"]["get"],
        Endpoint::Response => &paths["/v1/tunnels/{tunnel_id}/response"]["post"],
    };
    let parameters = described["parameters"].as_array().into_iter().flatten();
    let parameters: Vec<_> = parameters.filter_map(Parameter::read).collect();
    assert!(!parameters.is_empty(), "the contract lacks {endpoint:?}");
    Operation {
        parameters,
        responses: described["responses"].clone(),
    }
}

impl Parameter {
    /// None for a part of the path, which is checked by finding its endpoint.
    fn read(described: &Value) -> Option<Self> {
        let place = match described["in"].as_str() {
            Some("header") => Place::Header,
            Some("query") => Place::Query,
            _ => return None,
        };
        Some(Self {
            name: described["name"].as_str()?.to_owned(),
            place,
            required: described["required"] == json!(true),
            schema: validator(&described["schema"]),
        })
    }

    fn check(&self, exchange: &Exchange, found: &mut Vec<String>) {
        let name = &self.name;
        let value = match self.place {
            Place::Header => exchange
                .header(&name.to_lowercase())
                .map(|text| json!(text)),
            Place::Query => exchange.query.split('&').find_map(|pair| {
                let (key, text) = pair.split_once('=')?;
                let number = text.parse::<i64>().map(|number| json!(number));
                (key == name).then(|| number.unwrap_or_else(|_| json!(text)))
            }),
        };
        match value {
            Some(value) => report(&self.schema, &value, name, found),
            None if self.required => found.push(format!("no {name}")),
            None => {}
        }
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

/// The rules of the server information that the schema can only tell in words.
fn server_info() -> Validator {
    validator(&json!({
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
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn poll() -> Exchange {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Exchange {
            at: Instant::now(),
            endpoint: Some(Endpoint::Poll),
            method: "GET".into(),
            path: "/v1/tunnels/tunnel_0/poll".into(),
            query: "limit=25&timeout_ms=2000".into(),
            headers: vec![
                header("authorization", "Bearer key"),
                header("x-tunnel-client-name", "hands-tunnel"),
                header("x-tunnel-client-version", "1"),
                header("x-tunnel-client-instance-id", "1"),
            ],
            body: Vec::new(),
            status: Some(200),
            answer_headers: vec![header("content-type", "application/json")],
            answer: br#"{"commands":[]}"#.to_vec(),
            off_contract: false,
        }
    }

    fn post(body: &Value) -> Exchange {
        let mut exchange = poll();
        exchange.endpoint = Some(Endpoint::Response);
        exchange.query.clear();
        let json = ("content-type".to_owned(), "application/json".to_owned());
        let token = ("x-tunnel-shard-token".to_owned(), "shard".to_owned());
        exchange.headers.extend([json, token]);
        exchange.body = body.to_string().into_bytes();
        exchange.answer = br#"{"status":"ok"}"#.to_vec();
        exchange
    }

    fn payload() -> Value {
        json!({
            "request_id": "req_1", "channel": "main", "resp_code": 200,
            "resp_type": "jsonrpc_response", "resp_headers": {},
            "resp_json": {"jsonrpc": "2.0", "id": 1, "result": {}},
        })
    }

    fn error(status: u16, code: &Value) -> Exchange {
        let error = json!({"message": "m", "type": "t", "param": null, "code": code});
        let mut exchange = poll();
        exchange.status = Some(status);
        exchange.answer = json!({"error": error}).to_string().into_bytes();
        exchange
    }

    #[test]
    fn what_breaks_the_contract_is_found_in_both_directions() {
        let Some(contract) = Contract::load() else {
            eprintln!("skipped: the tunnel's OpenAPI contract is not at hand");
            return;
        };
        let good = [
            poll(),
            post(&payload()),
            error(401, &json!("tunnel_use_forbidden")),
            error(500, &Value::Null),
        ];
        for exchange in good {
            assert_eq!(contract.check(&exchange), [""; 0], "{exchange:?}");
        }
        let changed = |exchange: Exchange, change: fn(&mut Exchange)| {
            let mut exchange = exchange;
            change(&mut exchange);
            exchange
        };
        let bad = [
            changed(poll(), |e| e.query = "limit=26".into()),
            changed(poll(), |e| e.query = "wait=1".into()),
            changed(poll(), |e| e.headers.truncate(3)),
            changed(poll(), |e| e.endpoint = None),
            changed(poll(), |e| e.answer = br#"{"commands":[{}]}"#.to_vec()),
            changed(poll(), |e| e.answer_headers.clear()),
            changed(poll(), |e| e.status = Some(204)),
            changed(poll(), |e| e.status = Some(202)),
            changed(error(500, &Value::Null), |e| e.answer.clear()),
            changed(error(500, &Value::Null), |e| e.answer = b"{}".to_vec()),
            error(401, &json!("rate_limit_exceeded")),
            changed(post(&payload()), |e| drop(e.headers.pop())),
            post(&json!({"request_id": 1})),
            {
                let mut body = payload();
                body["shard_token"] = json!("shard");
                post(&body)
            },
            {
                let mut body = payload();
                let data = json!({"tunnel_failure": {"version": 1}});
                body["resp_json"] = json!({"jsonrpc": "2.0", "id": 1, "error":
                    {"code": -32603, "message": "m", "data": data}});
                post(&body)
            },
        ];
        for exchange in bad {
            assert!(!contract.check(&exchange).is_empty(), "{exchange:?}");
        }
    }
}
