//! The protocol, on rmcp.

use crate::calls::{Call, ProgressSink, serve};
use crate::front::Flights;
use crate::limits;
use crate::session::Session;
use crate::tools::Tool;
use hands_text::lines::truncate_at_char;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, ErrorData, Implementation, InitializeRequestParams, InitializeResult,
    ListToolsResult, NumberOrString, PaginatedRequestParams, ProgressNotificationParam,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use std::sync::{Arc, OnceLock};

/// Serves one connection.
pub struct Handler {
    session: Arc<Session>,
    flights: Flights,
    tools: OnceLock<Vec<rmcp::model::Tool>>,
}

impl Handler {
    /// A handler for this session, over the connection whose requests are in `flights`.
    pub fn new(session: Arc<Session>, flights: Flights) -> Self {
        Self {
            session,
            flights,
            tools: OnceLock::new(),
        }
    }

    fn tools(&self) -> &Vec<rmcp::model::Tool> {
        let list = || Tool::ALL.iter().map(|t| t.listed(&self.session)).collect();
        self.tools.get_or_init(list)
    }
}

/// Progress goes out as notifications, in order, from a task of its own: a slow client holds up
/// only its own news.
fn progress_sink(context: &RequestContext<RoleServer>) -> Option<ProgressSink> {
    let token = context.meta.get_progress_token()?;
    let peer = context.peer.clone();
    let (news, mut queue) = tokio::sync::mpsc::channel::<(u64, String)>(4);
    tokio::spawn(async move {
        let began = std::time::Instant::now();
        while let Some((bytes, line)) = queue.recv().await {
            // The protocol wants a number that grows with each notification; bytes may stand still.
            let seconds = began.elapsed().as_secs_f64();
            let now =
                ProgressNotificationParam::new(token.clone(), seconds).with_message(match bytes {
                    0 => "no output so far".to_string(),
                    _ => format!("{bytes} bytes so far; last line: {line}"),
                });
            if peer.notify_progress(now).await.is_err() {
                return;
            }
        }
    });
    // What the client has not taken yet is overtaken by what comes next.
    Some(Box::new(move |bytes, line| {
        drop(news.try_send((bytes, line.to_string())));
    }))
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let mut own = Implementation::new("hands", env!("CARGO_PKG_VERSION"));
        own.title = Some("Hands".into());
        InitializeResult::new(capabilities).with_server_info(own)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let answer = self.negotiate_initialize(&request)?;
        let client = &request.client_info;
        self.session.set_client(&client.name, &client.version);
        self.session.live.line(&format!(
            "client {} {} protocol {}",
            client.name, client.version, answer.protocol_version
        ));
        // What was agreed on, not what was asked for, decides how later requests are read.
        let mut agreed = request;
        agreed.protocol_version = answer.protocol_version.clone();
        context.peer.set_peer_info(agreed);
        Ok(answer)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = truncate_at_char(&request.method, limits::NAME_BYTES);
        let message = format!("unknown method `{method}`");
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools().clone()))
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        self.tools().iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = Tool::named(&request.name) else {
            let names: Vec<&str> = Tool::ALL.iter().map(|t| t.name()).collect();
            let name = truncate_at_char(&request.name, limits::NAME_BYTES);
            let message = format!("unknown tool `{name}`; there are {}", names.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        let number = match context.id {
            NumberOrString::Number(number) => number,
            NumberOrString::String(_) => 0,
        };
        let Some(flight) = self.flights.get(number) else {
            return Err(ErrorData::internal_error("the request is not known", None));
        };
        if let Some(client) = context.client_info() {
            self.session.set_client(&client.name, &client.version);
        }
        let call = Call::new(Arc::clone(&self.session), &flight, progress_sink(&context));
        let answered = serve(call, tool, request.arguments.unwrap_or_default()).await;
        let outcome = &answered.outcome;
        let mut result = CallToolResult::success(vec![ContentBlock::text(outcome.shown())]);
        result.is_error = Some(outcome.code.is_error());
        result.structured_content =
            Some(outcome.structured(&answered.turn_id, answered.duration_ms));
        Ok(result.into())
    }
}
