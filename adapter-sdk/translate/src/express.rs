//! Holds a decoded document to the table of its target: what the provider cannot express is refused.

use alloc::collections::BTreeSet;
use alloc::format;

use crate::binding::Binding;
use crate::content::{Content, Item, Message, Role};
use crate::document::{Document, refuse, shown};
use crate::refusal::{Refusal, rule};
use crate::schema;
use crate::table::{Form, Strict, Table, TextRule};
use crate::tape::{Kind, Value};
use crate::text;
use crate::tool::Tool;

/// Refuses a document that the provider cannot express, or would not take.
pub(crate) fn hold(
    document: &Document<'_, '_>,
    table: &Table,
    binding: &Binding,
) -> Result<(), Refusal> {
    messages(document, table)?;
    let tools = &document.tools;
    let strict = binding.flag("strict").unwrap_or(false);
    let most = table.most_tools.unwrap_or(u32::MAX);
    if let Some(tool) = tools.get(most as usize) {
        let why = format!("there are {} tools; the provider takes {most}", tools.len());
        return Err(refuse(tool.value, rule::TOO_MANY_TOOLS, &why));
    }
    let mut names = BTreeSet::new();
    for tool in tools {
        hold_tool(*tool, table, strict)?;
        // Canonical text is the same for the same name, and for no other.
        if !names.insert(tool.name.raw()) {
            let why = format!("another tool is named {}", shown(tool.name));
            return Err(refuse(tool.name, rule::DUPLICATE_TOOL_NAMES, &why));
        }
    }
    tool_choice(document, table, binding)
}

/// Refuses a document whose tools are not those that the binding is about.
fn tool_choice(
    document: &Document<'_, '_>,
    table: &Table,
    binding: &Binding,
) -> Result<(), Refusal> {
    let tools = &document.tools;
    let list = document.root.get("tools").unwrap_or(document.root);
    let given = table.needs_tools.iter().find(|setting| binding.has_any(&[setting]));
    if let (Some(setting), true) = (given, tools.is_empty()) {
        let why = format!("the binding has {setting}, and there are no tools");
        return Err(refuse(list, rule::SETTING_NEEDS_TOOLS, &why));
    }
    match binding.text("tool_choice_name") {
        Some(name) if !tools.iter().any(|tool| tool.name.chars().eq(name.chars())) => {
            let why = format!("the binding has tool_choice_name = {}", text::shown(name));
            Err(refuse(list, rule::CHOSEN_TOOL_MISSING, &why))
        }
        _ => Ok(()),
    }
}

fn messages(document: &Document<'_, '_>, table: &Table) -> Result<(), Refusal> {
    let messages = &document.messages;
    let Some(last) = messages.last() else {
        let list = document.root.get("messages").unwrap_or(document.root);
        return Err(refuse(list, rule::NO_MESSAGES, "there are none"));
    };
    let most = table.most_messages.unwrap_or(u32::MAX);
    if let Some(message) = messages.get(most as usize) {
        let why = format!("there are {} messages; the provider takes {most}", messages.len());
        return Err(refuse(message.value, rule::TOO_MANY_MESSAGES, &why));
    }
    let most = table.most_system.unwrap_or(u32::MAX);
    // They come first.
    if let Some(message) = messages.get(most as usize).filter(|it| it.role == Role::System) {
        let why = format!("the provider takes {most}, and a translator merges nothing");
        return Err(refuse(message.value, rule::TOO_MANY_SYSTEM_MESSAGES, &why));
    }
    messages.iter().try_for_each(|message| hold_message(*message, table))?;
    // System messages come first, so the last one tells.
    if table.needs_turn && last.role == Role::System {
        let why = "all messages are of system";
        return Err(refuse(last.value, rule::NO_NON_SYSTEM_MESSAGE, why));
    }
    let trailing =
        messages.iter().rev().take_while(|message| message.role == Role::Assistant).count();
    match table.trailing_assistants {
        Some(0) if trailing > 0 => {
            let why = "the provider takes no message of assistant at the end";
            Err(refuse(last.value, rule::ENDS_WITH_ASSISTANT, why))
        }
        Some(most) if trailing > most as usize => {
            let why =
                format!("{trailing} messages of assistant stand at the end; at most {most} may");
            Err(refuse(last.value, rule::TWO_TRAILING_ASSISTANTS, &why))
        }
        _ => Ok(()),
    }
}

fn hold_message(message: Message<'_, '_>, table: &Table) -> Result<(), Refusal> {
    let list = match message.content {
        Content::Text(text) => return hold_text(text, table.text),
        Content::List(list) => list,
    };
    for item in message.content.items() {
        if let Item::Asset(asset) = item {
            let why = "the document has its digest alone, and a translator fetches nothing";
            return Err(refuse(asset, rule::ASSET_HAS_NO_BYTES, why));
        }
    }
    let form = match message.role {
        Role::System => table.system,
        Role::User => table.user,
        Role::Assistant => table.assistant,
    };
    let items = message.content.items().count();
    match form {
        _ if items == 0 => Err(refuse(list, rule::EMPTY_CONTENT, "the list has no items")),
        Form::Text => Err(refuse(
            list,
            rule::LIST_CONTENT_NOT_EXPRESSIBLE,
            &format!("the content of {} can only be a text", message.role.name()),
        )),
        Form::Block if items > 1 => Err(refuse(
            list,
            rule::SYSTEM_BOUNDARY_LOST,
            "each system message is one block, so its items could not be told from messages",
        )),
        Form::TextOrList | Form::Block => message.content.items().try_for_each(|item| match item {
            Item::Text(text) | Item::Asset(text) => hold_text(text, table.text),
        }),
    }
}

fn hold_text(text: Value<'_, '_>, rule: TextRule) -> Result<(), Refusal> {
    let (is_fine, why) = match rule {
        TextRule::Any => return Ok(()),
        TextRule::NotEmpty => (!text.inner().is_empty(), "it is empty"),
        TextRule::NotBlank => (
            text.chars().any(|character| !character.is_whitespace()),
            "it has nothing but white space",
        ),
    };
    if is_fine { Ok(()) } else { Err(refuse(text, rule::EMPTY_TEXT, why)) }
}

fn hold_tool(tool: Tool<'_, '_>, table: &Table, strict: bool) -> Result<(), Refusal> {
    if !table.tool_name.accepts(tool.name.chars()) {
        let why = format!("a name must match {}", table.tool_name.pattern());
        return Err(refuse(tool.name, rule::TOOL_NAME_CONSTRAINT, &why));
    }
    if tool.description.kind() == Kind::Null && !table.null_description {
        let why = "the provider takes a text, and to leave it out would be to drop it";
        return Err(refuse(tool.description, rule::DESCRIPTION_NULL, why));
    }
    schema::hold_root(tool.parameters, table)?;
    if let Some(vocabulary) = &table.vocabulary {
        schema::hold_vocabulary(tool.parameters, vocabulary)?;
    }
    if strict && table.strict != Strict::None {
        schema::hold_strict(tool.parameters, table.strict)?;
    }
    Ok(())
}
