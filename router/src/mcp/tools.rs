//! Tools: what the caller may call, and calls.

use nexus_router_sdk::Object as Schema;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, ErrorCode, ErrorData, ListToolsResult,
    PaginatedRequestParams, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};

use super::answer::{self, Gave};
use super::asking::{Bound, ROUNDS, Said, add_answers, is_stateless};
use super::call::{Calling, Came, Following, Wait, key_of};
use super::{Asker, Handler, own, refused, refused_with};
use crate::access::Scope;
use crate::json::Object;
use crate::registry::Unavailability;
use crate::service::Standing;
use crate::toolspec::ToolSpec;

/// So many are told at once.
const PAGE: usize = 1000;
/// For how long callers may go by what they were told; changes are told besides.
pub(super) const FRESH_MS: u64 = 5000;

impl Handler {
    /// Lists the tools that the caller may call.
    pub(super) fn tools(
        &self,
        asker: &Asker,
        page: Option<&PaginatedRequestParams>,
    ) -> Result<ListToolsResult, ErrorData> {
        let standing = self.service().standing();
        let mut tools: Vec<Tool> = Vec::new();
        if asker.bearer.may(Scope::Apply) {
            let caller = Some(&*asker.bearer.caller);
            let allowed = |spec: &&ToolSpec| {
                standing.law.apply
                    && spec.definition.applies
                    && standing.law.judge(caller, spec.act()).is_ok()
            };
            tools.extend(standing.tools.iter().filter(allowed).map(tool));
        }
        if asker.bearer.may(Scope::Admin) {
            tools.extend(own::tools());
            tools.extend(
                standing.tools.locals().filter_map(|(name, local)| own::alias(name, local)),
            );
        }
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let (tools, next_cursor) = paged(tools, page, |tool| &tool.name)?;
        let mut list = ListToolsResult::with_all_items(tools)
            .with_ttl_ms(FRESH_MS)
            .with_cache_scope(CacheScope::Private);
        list.next_cursor = next_cursor;
        Ok(list)
    }

    /// Calls a tool.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let asker = self.asker(&context)?;
        self.settled().await;
        let name = request.name.as_ref();
        if own::is_own(name) {
            return self.call_own(request, &context, &asker).await;
        }
        let standing = self.service().standing();
        if let Some(local) = standing.tools.local(name) {
            let mut request = request;
            request.name = local.operation.clone().into();
            return self.call_own(request, &context, &asker).await;
        }
        let Some(spec) = standing.tools.get(name) else {
            return Err(self.unknown_tool(&asker, name, &standing));
        };
        let args = request.arguments.as_ref().map(Object::from).unwrap_or_default();
        let bound = Bound { asker: &asker, method: "tools/call", name, args: &args };
        let said = Said { responses: request.input_responses, state: request.request_state };
        let interactive = spec.definition.interactive || spec.definition.long;
        let mut interaction = self.interaction(&context, &bound, said, interactive)?;
        let goal = format!("call {name}");
        let wait = Wait::of(self, &context);
        for _ in 0..ROUNDS {
            let calling = Calling {
                goal: &goal,
                act: spec.act(),
                timeout: spec.timeout,
                args: args.clone(),
                interaction: interaction.clone(),
                key: key_of(&context),
                following: if spec.definition.long { Following::Long } else { Following::Waiting },
            };
            let outcome = match self.make(&wait, &asker, calling).await? {
                Came::Over(outcome) => outcome,
                Came::UnderWay(run_id) => {
                    return Ok(CallToolResponse::Task(self.new_task(&asker, &run_id).await?));
                }
            };
            let content = spec.definition.content;
            let questions = match answer::read(&outcome)? {
                Gave::Output(output) => {
                    return Ok(answer::result(&outcome, content, Ok(output))?.into());
                }
                Gave::Failure(failure) => {
                    return Ok(answer::result(&outcome, content, Err(failure))?.into());
                }
                Gave::Questions(questions) => questions,
            };
            if is_stateless(&context) {
                return Ok(self.ask_back(&bound, questions).into());
            }
            let answers = self.ask_now(&context, &questions).await?;
            let told = interaction.get_or_insert_default();
            add_answers(told, &answers, questions.state.as_deref());
        }
        let message =
            format!("the tool asked its caller {ROUNDS} times, and still does not answer");
        Err(ErrorData::internal_error(message, None))
    }

    fn unknown_tool(&self, asker: &Asker, name: &str, standing: &Standing) -> ErrorData {
        let shown: String = name.chars().take(128).collect();
        if let Some(unavailable) = self.service().router().registry().tool_unavailability(&shown) {
            let (code, hint) = (Unavailability::CODE, unavailable.hint());
            return refused_with(super::REFUSED, code, unavailable.to_string(), hint);
        }
        self.service().astray("UNKNOWN_TOOL", "tools/call", &asker.bearer.caller.name);
        if let Some(withheld) = standing.tools.without_adapter(name) {
            let message =
                format!("Unknown tool: {shown} is registered and unavailable: no adapter");
            return refused_with(
                ErrorCode::INVALID_PARAMS,
                "UNKNOWN_TOOL",
                message,
                &withheld.reason,
            );
        }
        let known = standing.tools.iter().map(|spec| spec.name.as_str());
        let meant = known
            .map(|known| (crate::near::likeness(name, known), known))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|best| best.0 > 0.8);
        // A tool that the caller may not see is not named to it either.
        let caller = Some(&*asker.bearer.caller);
        let meant = meant.filter(|(_, meant)| {
            let spec = standing.tools.get(meant);
            spec.is_some_and(|spec| standing.law.judge(caller, spec.act()).is_ok())
        });
        let hint = match meant {
            Some((_, meant)) => format!("did you mean {meant}?"),
            None => "tools/list tells what there is".to_owned(),
        };
        let message = format!("Unknown tool: {shown}");
        refused_with(ErrorCode::INVALID_PARAMS, "UNKNOWN_TOOL", message, &hint)
    }
}

/// Puts a tool into the words of the protocol.
pub(super) fn tool(spec: &ToolSpec) -> Tool {
    let definition = &spec.definition;
    let mut tool = Tool::default();
    tool.name = spec.name.clone().into();
    tool.title = definition.title.clone();
    tool.description = Some(spec.description.clone().into());
    tool.input_schema = definition.input_schema.clone();
    tool.output_schema = definition.output_schema.clone();
    let hints = definition.hints;
    let mut annotations = ToolAnnotations::default();
    annotations.read_only_hint = hints.read_only;
    annotations.destructive_hint = hints.destructive;
    annotations.idempotent_hint = hints.idempotent;
    annotations.open_world_hint = hints.open_world;
    tool.annotations = Some(annotations);
    let more: &Schema = &definition.more;
    tool.icons = more.get("icons").and_then(|icons| serde_json::from_value(icons.clone()).ok());
    tool.meta = more.get("_meta").and_then(|meta| serde_json::from_value(meta.clone()).ok());
    tool
}

/// Cuts a page out of a list that is sorted by name. The cursor is the last name of the page before.
pub(super) fn paged<T>(
    items: Vec<T>,
    page: Option<&PaginatedRequestParams>,
    name: impl Fn(&T) -> &str,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    use base64::Engine as _;
    let encoding = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let cursor = page.and_then(|page| page.cursor.as_deref()).filter(|cursor| !cursor.is_empty());
    let after = match cursor {
        None => None,
        Some(cursor) => {
            let read = encoding.decode(cursor).ok().and_then(|read| String::from_utf8(read).ok());
            Some(read.ok_or_else(|| {
                let message = "the cursor is not one of this list";
                refused(ErrorCode::INVALID_PARAMS, "CURSOR_INVALID", message)
            })?)
        }
    };
    let begin = after.map_or(0, |after| items.partition_point(|item| name(item) <= after.as_str()));
    let more = items.len() > begin + PAGE;
    let items: Vec<T> = items.into_iter().skip(begin).take(PAGE).collect();
    let next = items.last().filter(|_| more).map(|last| encoding.encode(name(last)));
    Ok((items, next))
}
