//! The requests of the protocol, each handed to the room that answers it.
#![expect(deprecated, reason = "the older era still has logging and subscriptions of its own")]

use std::sync::atomic::Ordering;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, ErrorData, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
    GetTaskResult, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};

use super::listening::FOLLOWED;
use super::{Handler, call, own, tools};

type Context = RequestContext<RoleServer>;
type Answer<T> = Result<T, ErrorData>;

/// What callers are told of the router as a whole.
const INSTRUCTIONS: &str = "Every call is checked against the operator's policy and recorded. A call may \
    wait for a person's approval; a client that declares the tasks extension can follow it as a task. The same \
    call with the same nexus-router/idempotencyKey in its _meta finds the run again.";

// The library moves the futures of requests about several times, so the large ones are boxed.
impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        let mut info = ServerConfig::new(capabilities);
        let name = env!("CARGO_PKG_NAME");
        info.server_info = Implementation::new(name, env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Answer<ListToolsResult> {
        self.tools(&self.asker(&context)?, page.as_ref())
    }

    /// Headers may repeat arguments; they are compared with the body by the tool's schema.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        if own::is_own(name) {
            return own::tools().find(|tool| tool.name == name);
        }
        self.service().standing().tools.get(name).map(tools::tool)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Answer<CallToolResponse> {
        Box::pin(self.call(request, context)).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Answer<ListResourcesResult> {
        self.resources(&self.asker(&context)?, page.as_ref())
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Answer<ListResourceTemplatesResult> {
        self.templates(&self.asker(&context)?, page.as_ref())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Answer<ReadResourceResponse> {
        Box::pin(self.read(request, context)).await
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Answer<ListPromptsResult> {
        self.prompts(&self.asker(&context)?, page.as_ref())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Context,
    ) -> Answer<GetPromptResponse> {
        Box::pin(self.prompt(request, context)).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: Context,
    ) -> Answer<CompleteResult> {
        Box::pin(self.completion(request, context)).await
    }

    async fn set_level(&self, request: SetLevelRequestParams, context: Context) -> Answer<()> {
        self.asker(&context)?;
        self.level.store(call::weight(request.level), Ordering::Relaxed);
        Ok(())
    }

    async fn subscribe(&self, request: SubscribeRequestParams, context: Context) -> Answer<()> {
        Box::pin(self.follow_in_session(&context, request.uri)).await
    }

    async fn unsubscribe(&self, request: UnsubscribeRequestParams, context: Context) -> Answer<()> {
        self.leave_in_session(&context, &request.uri)
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        // The library compares every one of them with every other.
        let many =
            accepted.resource_subscriptions.as_ref().is_some_and(|uris| uris.len() > FOLLOWED);
        if many {
            accepted.resource_subscriptions = None;
        }
        self.will_follow(&accepted);
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Answer<()> {
        Box::pin(self.tell_listener(context)).await
    }

    async fn get_task(&self, request: GetTaskParams, context: Context) -> Answer<GetTaskResult> {
        Box::pin(self.task(&self.asker(&context)?, &request.task_id)).await
    }

    async fn update_task(&self, request: UpdateTaskParams, context: Context) -> Answer<()> {
        let asker = self.asker(&context)?;
        Box::pin(self.answer_task(&asker, &request.task_id, request.input_responses)).await
    }

    async fn cancel_task(&self, request: CancelTaskParams, context: Context) -> Answer<()> {
        Box::pin(self.cancel_task_of(&self.asker(&context)?, &request.task_id)).await
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.tell_session(context.peer);
    }
}
