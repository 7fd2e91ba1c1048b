//! `handsctl call TOOL JSON`: one real MCP call.

use crate::args::CallArgs;
use crate::exit::{Exit, Failure};
use crate::session::Server;
use crate::{Context, session};
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock};
use serde_json::{Map, Value};
use std::io::Read;
use std::time::Duration;

pub(crate) fn run(context: &Context, args: CallArgs) -> Result<Exit, Failure> {
    let arguments = arguments(&args.arguments)?;
    let params = CallToolRequestParams::new(args.tool).with_arguments(arguments);
    let wait = Duration::from_secs(args.wait);
    let server = Server::wanted(args.standalone);
    let result = session::call(context, server, params, wait, args.verbose)?;
    if context.out.json {
        context.out.object(&result)?;
    } else {
        for block in &result.content {
            context.out.text(&shown(block))?;
        }
    }
    Ok(if succeeded(&result) {
        Exit::Ok
    } else {
        Exit::Failed
    })
}

/// The arguments given, or those on stdin.
fn arguments(text: &str) -> Result<Map<String, Value>, Failure> {
    let wrong = |why: String| {
        Failure::usage("reading the arguments", why).hint(
            r#"give a JSON object such as '{"path": "notes.txt"}', or - to read one from stdin"#,
        )
    };
    let mut given = text.to_owned();
    if text == "-" {
        given.clear();
        std::io::stdin()
            .read_to_string(&mut given)
            .map_err(|cause| wrong(format!("stdin: {cause}")))?;
    }
    match serde_json::from_str(&given) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err(wrong("they are not a JSON object".to_owned())),
        Err(cause) => Err(wrong(format!("they are not JSON: {cause}"))),
    }
}

/// A block of the result as text; what is not text is named.
fn shown(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => {
            format!(
                "[image {}, {} bytes as base64]",
                image.mime_type,
                image.data.len()
            )
        }
        ContentBlock::Audio(audio) => {
            format!(
                "[audio {}, {} bytes as base64]",
                audio.mime_type,
                audio.data.len()
            )
        }
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

/// A command that ended non-zero is no error of the call, yet no success either.
fn succeeded(result: &CallToolResult) -> bool {
    let says_ok = result
        .structured_content
        .as_ref()
        .and_then(|facts| facts.get("ok"))
        .and_then(Value::as_bool)
        .unwrap_or(true);
    says_ok && result.is_error != Some(true)
}
