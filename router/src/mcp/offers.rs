//! Resources, prompts and completions of adapters: listed as the caller may see them, and called as tools are.

use nexus_router_sdk::Catalog;
use rmcp::model::{
    CacheScope, CompleteRequestParams, CompleteResult, CompletionInfo, ErrorCode, ErrorData,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference, ResultType,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::{self, Gave, Questions};
use super::asking::{Bound, ROUNDS, Said, add_answers, is_stateless};
use super::call::{Calling, Came, Following, Wait, key_of};
use super::following::Follow;
use super::tools::{FRESH_MS, paged};
use super::{Asker, Handler, refused};
use crate::access::Scope;
use crate::json::Object;
use crate::policy::Act;
use crate::service::Standing;
use crate::toolspec::Offered;

/// One thing that a caller asks an adapter for, which is no tool.
struct Wish<'a> {
    method: &'a str,
    name: &'a str,
    adapter_id: &'a str,
    call: (&'a str, &'a str),
    args: Object,
    said: Said,
}

/// What came of a wish.
enum Granted<T> {
    Answer(T),
    Questions(Questions, Object),
}

impl Handler {
    /// Lists resources.
    pub(super) fn resources(
        &self,
        asker: &Asker,
        page: Option<&PaginatedRequestParams>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let standing = self.service().standing();
        let resources = standing.tools.offers().resources.values();
        let items = listed(asker, &standing, resources, Catalog::READ);
        let (items, next) = paged(items, page, |item: &rmcp::model::Resource| &item.uri)?;
        let mut list = ListResourcesResult::with_all_items(items)
            .with_ttl_ms(FRESH_MS)
            .with_cache_scope(CacheScope::Private);
        list.next_cursor = next;
        Ok(list)
    }

    /// Lists templates of resources.
    pub(super) fn templates(
        &self,
        asker: &Asker,
        page: Option<&PaginatedRequestParams>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let standing = self.service().standing();
        let templates = standing.tools.offers().templates.values();
        let items = listed(asker, &standing, templates, Catalog::READ);
        let (items, next) =
            paged(items, page, |item: &rmcp::model::ResourceTemplate| &item.uri_template)?;
        let mut list = ListResourceTemplatesResult::with_all_items(items)
            .with_ttl_ms(FRESH_MS)
            .with_cache_scope(CacheScope::Private);
        list.next_cursor = next;
        Ok(list)
    }

    /// Lists prompts.
    pub(super) fn prompts(
        &self,
        asker: &Asker,
        page: Option<&PaginatedRequestParams>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let standing = self.service().standing();
        let prompts = standing.tools.offers().prompts.values();
        let items = listed(asker, &standing, prompts, Catalog::PROMPT);
        let (items, next) = paged(items, page, |item: &rmcp::model::Prompt| &item.name)?;
        let mut list = ListPromptsResult::with_all_items(items)
            .with_ttl_ms(FRESH_MS)
            .with_cache_scope(CacheScope::Private);
        list.next_cursor = next;
        Ok(list)
    }

    /// Reads a resource.
    pub(super) async fn read(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let asker = self.asker(&context)?;
        let standing = self.service().standing();
        let Some(offered) = standing.tools.offers().reader(&request.uri) else {
            self.service().astray("NOT_FOUND", "resources/read", &asker.bearer.caller.name);
            let data = json!({ "uri": request.uri });
            return Err(ErrorData::resource_not_found("Resource not found", Some(data)));
        };
        let mut args = Object::new();
        args.insert("uri", request.uri.as_str());
        let wish = Wish {
            method: "resources/read",
            name: &request.uri,
            adapter_id: &offered.adapter_id,
            call: Catalog::READ,
            args,
            said: Said { responses: request.input_responses, state: request.request_state },
        };
        Ok(match self.grant::<ReadResourceResult>(&context, &asker, wish).await? {
            Granted::Answer(mut answer) => {
                answer.result_type = Some(ResultType::COMPLETE);
                // What an adapter reads may be another thing the next time.
                let answer = answer.with_ttl_ms(0).with_cache_scope(CacheScope::Private);
                ReadResourceResponse::Complete(answer)
            }
            Granted::Questions(questions, args) => {
                let bound = Bound {
                    asker: &asker,
                    method: "resources/read",
                    name: &request.uri,
                    args: &args,
                };
                self.ask_back(&bound, questions).into()
            }
        })
    }

    /// Gets a prompt.
    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let asker = self.asker(&context)?;
        let standing = self.service().standing();
        let offered = standing.tools.offers().prompts.get(&request.name);
        let offered = offered.ok_or_else(|| self.unknown_prompt(&asker, &request.name))?;
        let mut args = Object::new();
        args.insert("name", offered.original.as_str());
        let given = request.arguments.as_ref().map(Object::from).unwrap_or_default();
        args.insert("arguments", given);
        let wish = Wish {
            method: "prompts/get",
            name: &request.name,
            adapter_id: &offered.adapter_id,
            call: Catalog::PROMPT,
            args,
            said: Said { responses: request.input_responses, state: request.request_state },
        };
        Ok(match self.grant::<GetPromptResult>(&context, &asker, wish).await? {
            Granted::Answer(mut answer) => {
                answer.result_type = Some(ResultType::COMPLETE);
                GetPromptResponse::Complete(answer)
            }
            Granted::Questions(questions, args) => {
                let bound = Bound {
                    asker: &asker,
                    method: "prompts/get",
                    name: &request.name,
                    args: &args,
                };
                self.ask_back(&bound, questions).into()
            }
        })
    }

    /// Completes an argument.
    pub(super) async fn completion(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let asker = self.asker(&context)?;
        let standing = self.service().standing();
        let offers = standing.tools.offers();
        let mut reference = serde_json::to_value(&request.r#ref).unwrap_or_default();
        let offered = match &request.r#ref {
            Reference::Prompt(prompt) => {
                let offered = offers.prompts.get(&*prompt.name);
                let offered = offered.ok_or_else(|| self.unknown_prompt(&asker, &prompt.name))?;
                reference["name"] = offered.original.as_str().into();
                offered
            }
            Reference::Resource(resource) => {
                let template = offers.templates.get(&*resource.uri);
                let offered = template.or_else(|| offers.reader(&resource.uri));
                offered.ok_or_else(|| {
                    let data = json!({ "uri": resource.uri });
                    ErrorData::resource_not_found("Resource not found", Some(data))
                })?
            }
            _ => return Err(ErrorData::invalid_params("this cannot be completed", None)),
        };
        if !offers.completing.contains(&offered.adapter_id) {
            return Ok(CompleteResult::default());
        }
        let mut args = Object::new();
        args.insert("ref", crate::json::Value::from(&reference));
        let argument = serde_json::to_value(&request.argument).unwrap_or_default();
        args.insert("argument", crate::json::Value::from(&argument));
        if let Some(known) = request.context.as_ref() {
            let known = serde_json::to_value(known).unwrap_or_default();
            args.insert("context", crate::json::Value::from(&known));
        }
        let wish = Wish {
            method: "completion/complete",
            name: &offered.original,
            adapter_id: &offered.adapter_id,
            call: Catalog::COMPLETE,
            args,
            said: Said::default(),
        };
        match self.grant::<CompletionInfo>(&context, &asker, wish).await? {
            Granted::Answer(mut answer) => {
                if answer.values.len() > CompletionInfo::MAX_VALUES {
                    answer.values.truncate(CompletionInfo::MAX_VALUES);
                    answer.has_more = Some(true);
                }
                Ok(CompleteResult::new(answer))
            }
            Granted::Questions(..) => {
                Err(ErrorData::internal_error("a completion cannot ask anything", None))
            }
        }
    }

    /// Follows a resource, if its adapter can tell of changes.
    pub(super) async fn follow(
        &self,
        context: &RequestContext<RoleServer>,
        asker: &Asker,
        uri: &str,
    ) -> Result<Option<Follow>, ErrorData> {
        let standing = self.service().standing();
        let offers = standing.tools.offers();
        let Some(offered) = offers.reader(uri) else {
            return Err(ErrorData::resource_not_found(
                "Resource not found",
                Some(json!({ "uri": uri })),
            ));
        };
        if !offers.following.contains(&offered.adapter_id) {
            return Ok(None);
        }
        let mut args = Object::new();
        args.insert("uri", uri);
        let (adapter_id, call) = (&offered.adapter_id, Catalog::SUBSCRIBE);
        let key = (adapter_id.clone(), uri.to_owned());
        let follow = Follow::begin(&self.shared, &asker.bearer.caller, key).await;
        let wish =
            Wish { method: call.1, name: uri, adapter_id, call, args, said: Said::default() };
        // Every caller asks for itself, so that the law judges each.
        let refused = match self.grant::<Value>(context, asker, wish).await {
            Ok(Granted::Answer(_)) => return Ok(Some(follow)),
            Ok(Granted::Questions(..)) => {
                ErrorData::internal_error("following cannot ask anything", None)
            }
            Err(error) => error,
        };
        follow.failed();
        Err(refused)
    }

    /// Has an adapter do something that is no tool.
    async fn grant<T: DeserializeOwned>(
        &self,
        context: &RequestContext<RoleServer>,
        asker: &Asker,
        wish: Wish<'_>,
    ) -> Result<Granted<T>, ErrorData> {
        let Wish { method, name, adapter_id, call: (tool, operation), args, said } = wish;
        let bound = Bound { asker, method, name, args: &args };
        let interactive = tool != Catalog::COMPLETE.0;
        let mut interaction = self.interaction(context, &bound, said, interactive)?;
        let goal = format!("{method} {name}");
        for _ in 0..ROUNDS {
            let calling = Calling {
                goal: &goal,
                act: Act { adapter_id, tool, method: operation },
                timeout: None,
                args: args.clone(),
                interaction: interaction.clone(),
                key: key_of(context),
                following: Following::Never,
            };
            let wait = Wait::of(self, context);
            let Came::Over(outcome) = self.make(&wait, asker, calling).await? else {
                return Err(ErrorData::internal_error("this cannot be followed as a task", None));
            };
            let questions = match answer::read(&outcome)? {
                Gave::Output(output) => return answer::typed(output).map(Granted::Answer),
                Gave::Failure(failure) => {
                    return Err(answer::failure(&outcome, &failure.error, name));
                }
                Gave::Questions(questions) => questions,
            };
            if is_stateless(context) {
                return Ok(Granted::Questions(questions, args));
            }
            let answers = self.ask_now(context, &questions).await?;
            let told = interaction.get_or_insert_default();
            add_answers(told, &answers, questions.state.as_deref());
        }
        Err(ErrorData::internal_error("the adapter does not stop asking", None))
    }

    fn unknown_prompt(&self, asker: &Asker, name: &str) -> ErrorData {
        self.service().astray("UNKNOWN_PROMPT", "prompts/get", &asker.bearer.caller.name);
        let shown: String = name.chars().take(128).collect();
        let message = format!("Unknown prompt: {shown}");
        refused(ErrorCode::INVALID_PARAMS, "UNKNOWN_PROMPT", message)
    }
}

/// Returns the definitions of what a caller may use. One that is none of the protocol is left out.
fn listed<'a, T: DeserializeOwned>(
    asker: &Asker,
    standing: &Standing,
    offered: impl Iterator<Item = &'a Offered>,
    (tool, method): (&str, &str),
) -> Vec<T> {
    if !asker.bearer.may(Scope::Apply) || !standing.law.apply {
        return Vec::new();
    }
    let allowed = |offered: &&Offered| {
        let act = Act { adapter_id: &offered.adapter_id, tool, method };
        standing.law.judge(Some(&*asker.bearer.caller), act).is_ok()
    };
    let read =
        |offered: &Offered| serde_json::from_value(Value::Object(offered.definition.clone())).ok();
    offered.filter(allowed).filter_map(read).collect()
}
