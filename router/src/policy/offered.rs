//! Operations that callers below admin scope may call, on every path.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nexus_router_sdk::Catalog;

use super::{Act, Denial, Law};
use crate::caller::Caller;
use crate::config::Pattern;
use crate::json::{Object, Value};

/// Everything that is offered: operations by adapter, and the tools that name operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfferedOperations {
    /// Offers by the adapters' ids. An adapter that is not here offers nothing.
    pub adapters: BTreeMap<String, AdapterOffer>,
    /// Tools by the names that callers use.
    pub tools: BTreeMap<String, OfferedTool>,
}

/// Offer of one adapter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdapterOffer {
    /// The state of its catalogue, which decides whether the patterns count.
    pub catalogue: CatalogueState,
    /// Offered operations: methods by tool.
    pub operations: Operations,
    /// Patterns of offered tools. They decide only for adapters without a catalogue.
    pub patterns: Vec<Pattern>,
    /// URIs of offered resources, compared with case.
    pub resources: BTreeSet<String>,
    /// Templates of offered resources, compared with case.
    pub templates: BTreeSet<String>,
    /// Offered prompts, by the adapter's own names.
    pub prompts: BTreeSet<String>,
}

/// Operations of one adapter: methods by tool.
pub type Operations = BTreeMap<String, BTreeSet<String>>;

/// State of an adapter's catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatalogueState {
    /// The adapter has no catalogue.
    #[default]
    Absent,
    /// The router has the catalogue.
    Known,
    /// The adapter has a catalogue, and has not sent it yet.
    Pending,
}

/// Operation behind an offered tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedTool {
    /// The adapter.
    pub adapter_id: String,
    /// The adapter's tool.
    pub tool: String,
    /// The tool's method.
    pub method: String,
    /// The longest time of a call, if the step says none.
    pub timeout: Option<Duration>,
}

/// Offer state of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfferState {
    Offered,
    NotOffered,
    /// A pattern may offer it, once the catalogue is known.
    Undecided,
}

/// Operations that one caller may name.
#[derive(Clone, Copy, Debug)]
pub struct CallerReach<'a>(Option<&'a OfferedOperations>);

impl CallerReach<'_> {
    /// Returns whether an adapter may be named to the caller.
    #[must_use]
    pub fn shows(self, adapter_id: &str) -> bool {
        self.0.is_none_or(|offered| offered.adapters.contains_key(adapter_id))
    }
}

impl Law {
    /// Returns the reach of a caller: everything for administrators, the command line and embedding hosts.
    #[must_use]
    pub fn reach(&self, caller: Option<&Caller>) -> CallerReach<'_> {
        let bounded = caller.is_some_and(|caller| !caller.is_admin());
        CallerReach(self.offered.as_deref().filter(|_| bounded))
    }

    /// Finds the operation that a tool name stands for. The method is that of the operation, or `call`.
    #[must_use]
    pub fn offered_tool(&self, name: &str, method: &str) -> Option<&OfferedTool> {
        let tool = self.offered.as_deref()?.tools.get(name)?;
        (method == "call" || method == tool.method).then_some(tool)
    }

    /// Denies calls of operations that are not offered to their caller.
    ///
    /// # Errors
    /// With the denial.
    pub fn judge_by_offer(
        &self,
        caller: Option<&Caller>,
        act: Act<'_>,
        args: &Object,
    ) -> Result<(), Denial> {
        let CallerReach(Some(offered)) = self.reach(caller) else { return Ok(()) };
        let Act { adapter_id, tool, method } = act;
        let mut details = Object::new();
        match offered.state(act, args) {
            OfferState::Offered => Ok(()),
            OfferState::Undecided => {
                let why = self.unknown.get(adapter_id).map_or("no answer", String::as_str);
                let message = format!(
                    "adapter '{adapter_id}' has not sent its catalogue, so {tool}.{method} is not offered yet: {why}"
                );
                details.insert("denied_by", "operator");
                Err(Denial { code: "CATALOGUE_UNKNOWN", message, details })
            }
            OfferState::NotOffered => {
                let message = format!("{tool}.{method} of adapter '{adapter_id}' is not offered");
                details.insert("denied_by", "offer");
                Err(Denial { code: "NOT_OFFERED", message, details })
            }
        }
    }
}

impl OfferedOperations {
    fn state(&self, act: Act<'_>, args: &Object) -> OfferState {
        let Some(offer) = self.adapters.get(act.adapter_id) else { return OfferState::NotOffered };
        if contains(&offer.operations, act) {
            return OfferState::Offered;
        }
        let fits = || offer.patterns.iter().any(|pattern| pattern.matches_name(act.tool));
        match offer.catalogue {
            CatalogueState::Absent if fits() => OfferState::Offered,
            CatalogueState::Pending if fits() => OfferState::Undecided,
            CatalogueState::Known if offer.has_resource_or_prompt(act, args) => OfferState::Offered,
            _ => OfferState::NotOffered,
        }
    }
}

impl AdapterOffer {
    /// Returns whether the offer has nothing that a caller could use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let tools = !self.operations.is_empty()
            || self.catalogue != CatalogueState::Known && !self.patterns.is_empty();
        let others = [&self.resources, &self.templates, &self.prompts];
        !tools && others.iter().all(|names| names.is_empty())
    }

    /// Returns whether a call reads, follows, gets or completes something that is offered.
    fn has_resource_or_prompt(&self, act: Act<'_>, args: &Object) -> bool {
        let text = |object: &Object, key: &str| -> Option<String> {
            object.get(key).and_then(Value::as_str).map(str::to_owned)
        };
        let resource = |uri: &String| {
            self.resources.contains(uri)
                || self.templates.contains(uri)
                || self.templates.iter().any(|template| template_fits(template, uri))
        };
        let prompt = |name: &String| self.prompts.contains(name);
        match (act.tool, act.method) {
            Catalog::READ | Catalog::SUBSCRIBE | Catalog::UNSUBSCRIBE => {
                text(args, "uri").is_some_and(|uri| resource(&uri))
            }
            Catalog::PROMPT => text(args, "name").is_some_and(|name| prompt(&name)),
            Catalog::COMPLETE => {
                let reference = args.get("ref").and_then(Value::as_object);
                // The type decides which member the adapter reads.
                reference.is_some_and(|reference| match text(reference, "type").as_deref() {
                    Some("ref/prompt") => text(reference, "name").is_some_and(|it| prompt(&it)),
                    Some("ref/resource") => text(reference, "uri").is_some_and(|it| resource(&it)),
                    _ => false,
                })
            }
            _ => false,
        }
    }
}

/// Returns whether operations contain the one of a call.
pub(super) fn contains(operations: &Operations, act: Act<'_>) -> bool {
    operations.get(act.tool).is_some_and(|methods| methods.contains(act.method))
}

/// Part of a URI template of RFC 6570.
enum TemplatePart<'a> {
    Literal(&'a str),
    /// An expression such as `{id}`; `{+path}`, `{/path}`, `{#part}`, `{?query}` and `{&query}` also take the separators
    /// `/`, `?` and `#`.
    Expression {
        takes_separators: bool,
        may_be_empty: bool,
    },
}

/// Returns whether a URI may come of a template. The offer check and the routing of reads use it.
pub(crate) fn template_fits(template: &str, uri: &str) -> bool {
    let Some(parts) = template_parts(template) else { return false };
    // Whether the parts so far fit the first bytes of the URI.
    let mut fits = vec![false; uri.len() + 1];
    fits[0] = true;
    for part in parts {
        let mut next = vec![false; uri.len() + 1];
        match part {
            TemplatePart::Literal(literal) => {
                for at in (0..=uri.len()).filter(|at| fits[*at]) {
                    if uri.as_bytes()[at..].starts_with(literal.as_bytes()) {
                        next[at + literal.len()] = true;
                    }
                }
            }
            TemplatePart::Expression { takes_separators, may_be_empty } => {
                let mut is_open = false;
                for (at, byte) in uri.bytes().enumerate() {
                    if may_be_empty && fits[at] {
                        next[at] = true;
                    }
                    is_open =
                        (is_open || fits[at]) && (takes_separators || !b"/?#".contains(&byte));
                    next[at + 1] |= is_open;
                }
                next[uri.len()] |= may_be_empty && fits[uri.len()];
            }
        }
        fits = next;
    }
    fits[uri.len()]
}

/// Splits a template into its parts; none if a brace has no partner.
fn template_parts(template: &str) -> Option<Vec<TemplatePart<'_>>> {
    let mut pieces = template.split('{');
    let mut parts = vec![TemplatePart::Literal(pieces.next()?)];
    for piece in pieces {
        let (expression, literal) = piece.split_once('}')?;
        let is_query = expression.starts_with(['?', '&']);
        let takes_separators = is_query || expression.starts_with(['+', '#', '/']);
        parts.push(TemplatePart::Expression { takes_separators, may_be_empty: is_query });
        parts.push(TemplatePart::Literal(literal));
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::json::{Limits, parse};

    const ACT: Act<'_> = Act { adapter_id: "files", tool: "read_file", method: "call" };

    fn offer(catalogue: CatalogueState) -> AdapterOffer {
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        AdapterOffer {
            catalogue,
            operations: Operations::from([("read_file".to_owned(), set("call"))]),
            patterns: vec![Pattern::new("List_*").unwrap()],
            resources: set("file:///a"),
            templates: set("note://{id}"),
            prompts: set("greet"),
        }
    }

    fn law(catalogue: CatalogueState) -> Law {
        let adapters = BTreeMap::from([("files".to_owned(), offer(catalogue))]);
        let offered = Some(Arc::new(OfferedOperations { adapters, ..Default::default() }));
        Law { offered, ..Law::default() }
    }

    fn caller() -> Caller {
        let mut recorded = Caller::local().to_json();
        recorded.insert("scope", "apply");
        Caller::read(&recorded).unwrap()
    }

    fn code(law: &Law, act: Act<'_>, args: &str) -> &'static str {
        let args = parse(args.as_bytes(), Limits::REQUEST).unwrap().into_object().unwrap();
        assert_eq!(law.judge_by_offer(None, act, &args), Ok(()), "the host has every operation");
        let admin = Caller::local();
        assert_eq!(law.judge_by_offer(Some(&admin), act, &args), Ok(()), "so has an administrator");
        let denial = law.judge_by_offer(Some(&caller()), act, &args).err();
        denial.map_or("offered", |denial| denial.code)
    }

    #[test]
    fn only_offered_operations_reach_callers_below_admin() {
        for catalogue in [CatalogueState::Absent, CatalogueState::Known, CatalogueState::Pending] {
            let law = law(catalogue);
            assert_eq!(code(&law, ACT, "{}"), "offered");
            let others = [
                Act { tool: "move_file", ..ACT },
                Act { tool: "READ_FILE", ..ACT },
                Act { method: "other", ..ACT },
                Act { adapter_id: "mail", ..ACT },
            ];
            for other in others {
                assert_eq!(code(&law, other, "{}"), "NOT_OFFERED", "{catalogue:?} {other:?}");
            }
        }
        assert_eq!(code(&Law::default(), Act { adapter_id: "mail", ..ACT }, "{}"), "offered");
    }

    #[test]
    fn patterns_decide_for_adapters_without_a_catalogue() {
        let act = Act { tool: "list_all", method: "any", ..ACT };
        for (catalogue, expected) in [
            (CatalogueState::Absent, "offered"),
            (CatalogueState::Known, "NOT_OFFERED"),
            (CatalogueState::Pending, "CATALOGUE_UNKNOWN"),
        ] {
            assert_eq!(code(&law(catalogue), act, "{}"), expected, "{catalogue:?}");
        }
    }

    #[test]
    fn resources_and_prompts_are_offered_one_by_one() {
        let law = law(CatalogueState::Known);
        for ((tool, method), args, expected) in [
            (Catalog::READ, r#"{"uri":"file:///a"}"#, "offered"),
            (Catalog::READ, r#"{"uri":"note://7"}"#, "offered"),
            (Catalog::READ, r#"{"uri":"file:///b"}"#, "NOT_OFFERED"),
            (Catalog::READ, "{}", "NOT_OFFERED"),
            (Catalog::SUBSCRIBE, r#"{"uri":"file:///a"}"#, "offered"),
            (Catalog::UNSUBSCRIBE, r#"{"uri":"file:///b"}"#, "NOT_OFFERED"),
            (Catalog::PROMPT, r#"{"name":"greet"}"#, "offered"),
            (Catalog::PROMPT, r#"{"name":"other"}"#, "NOT_OFFERED"),
            (Catalog::COMPLETE, r#"{"ref":{"type":"ref/prompt","name":"greet"}}"#, "offered"),
            (
                Catalog::COMPLETE,
                r#"{"ref":{"type":"ref/resource","uri":"note://{id}"}}"#,
                "offered",
            ),
            (Catalog::COMPLETE, r#"{"ref":{"type":"ref/prompt","name":"other"}}"#, "NOT_OFFERED"),
            (
                Catalog::COMPLETE,
                r#"{"ref":{"type":"ref/prompt","name":"other","uri":"file:///a"}}"#,
                "NOT_OFFERED",
            ),
            (Catalog::COMPLETE, r#"{"ref":{"name":"greet"}}"#, "NOT_OFFERED"),
        ] {
            let act = Act { tool, method, ..ACT };
            assert_eq!(code(&law, act, args), expected, "{tool}.{method} {args}");
        }
        assert!(!offer(CatalogueState::Known).is_empty() && AdapterOffer::default().is_empty());
    }

    #[test]
    fn templates_find_their_uris() {
        for (template, uri, expected) in [
            ("test://template/{id}/data", "test://template/123/data", true),
            ("test://template/{id}/data", "test://template//data", false),
            ("test://template/{id}/data", "test://template/123/other", false),
            ("test://template/{id}/data", "test://template/123/data/more", false),
            ("file:///{+path}", "file:///a/b", true),
            ("file:///{+path}", "file:///", false),
            ("a{b}{c}d", "axxd", true),
            ("plain", "plain", true),
            ("plain", "plain2", false),
            ("broken{", "brokenx", false),
            ("é{x}", "éé", true),
            ("a{b}d", "axdxd", true),
            ("db://{t}/row", "db://x/../y/row", false),
            ("db://{t}/row", "db://x?y/row", false),
            ("search://{q}{?page}", "search://a", true),
            ("search://{q}{?page}", "search://a?page=2", true),
        ] {
            assert_eq!(template_fits(template, uri), expected, "{template} {uri}");
        }
    }
}
