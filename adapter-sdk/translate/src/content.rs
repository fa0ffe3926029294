//! The messages of a document, and what they are made of.

use alloc::format;

use crate::document::{members, missing, of_kind, of_string, one_of, refuse, shown, wrong_type};
use crate::refusal::{Refusal, rule};
use crate::tape::{Items, Kind, Value};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Whoever set the stage.
    System,
    /// Whoever asks.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Every role, in the order in which their messages stand.
    pub const ALL: [Self; 3] = [Self::System, Self::User, Self::Assistant];

    /// Returns the name that stands in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'t, 'a> {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Content<'t, 'a>,
    /// The whole message.
    pub value: Value<'t, 'a>,
}

/// What a message says.
#[derive(Clone, Copy, Debug)]
pub enum Content<'t, 'a> {
    /// One string.
    Text(Value<'t, 'a>),
    /// An array of items.
    List(Value<'t, 'a>),
}

/// An item of a list.
#[derive(Clone, Copy, Debug)]
pub enum Item<'t, 'a> {
    /// A text: its string.
    Text(Value<'t, 'a>),
    /// An image or a sound, of which there is only the digest.
    Asset(Value<'t, 'a>),
}

impl<'t, 'a> Message<'t, 'a> {
    pub(crate) fn decode(value: Value<'t, 'a>) -> Result<Self, Refusal> {
        let [content, role] = members(value, ["content", "role"])?;
        let decoded = match content.kind() {
            Kind::Plain | Kind::Escaped => Content::Text(content),
            Kind::Array => {
                content.items().try_for_each(|item| Item::decode(item).map(drop))?;
                Content::List(content)
            }
            _ => return Err(wrong_type(content, "string or array")),
        };
        let Some(known) = Role::ALL.into_iter().find(|known| role.is(known.name())) else {
            let why = format!("it must be system, user or assistant, and is {}", shown(role));
            return Err(refuse(role, rule::VALUE_UNKNOWN, &why));
        };
        Ok(Self { role: known, content: decoded, value })
    }
}

impl<'t, 'a> Content<'t, 'a> {
    /// Returns the items of a list; of a text nothing.
    #[must_use]
    pub fn items(self) -> ItemsOf<'t, 'a> {
        match self {
            Self::Text(text) => ItemsOf(text.items()),
            Self::List(list) => ItemsOf(list.items()),
        }
    }
}

/// The items of a list.
#[derive(Clone, Debug)]
pub struct ItemsOf<'t, 'a>(Items<'t, 'a>);

impl<'t, 'a> Iterator for ItemsOf<'t, 'a> {
    type Item = Item<'t, 'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.0.next()?;
        // They were decoded before: what has a text is one.
        Some(item.get("text").map_or(Item::Asset(item), Item::Text))
    }
}

impl<'t, 'a> Item<'t, 'a> {
    fn decode(value: Value<'t, 'a>) -> Result<Self, Refusal> {
        of_kind(value, Kind::Object)?;
        let Some(kind) = value.get("type") else { return Err(missing(value, "type")) };
        if kind.is("text") {
            let [text, _] = members(value, ["text", "type"])?;
            of_string(text)?;
            return Ok(Self::Text(text));
        }
        one_of(value, "type", &["text", "image", "audio"], rule::VALUE_UNKNOWN)?;
        let [asset, kind] = members(value, ["asset", "type"])?;
        decode_asset(asset, kind)?;
        Ok(Self::Asset(value))
    }
}

/// Assets may have more members than these; the compiler keeps what it is given.
fn decode_asset(asset: Value<'_, '_>, kind: Value<'_, '_>) -> Result<(), Refusal> {
    of_kind(asset, Kind::Object)?;
    one_of(asset, "kind", &[kind.inner()], rule::VALUE_UNKNOWN)?;
    let is_image = kind.is("image");
    let formats: &[&str] = if is_image { &["png", "jpeg", "webp"] } else { &["mp3", "wav", "ogg"] };
    one_of(asset, "format", formats, rule::VALUE_UNKNOWN)?;
    let Some(digest) = asset.get("digest") else { return Err(missing(asset, "digest")) };
    of_kind(digest, Kind::Object)?;
    one_of(digest, "algo", &["sha256"], rule::VALUE_UNKNOWN)?;
    let Some(value) = digest.get("value") else { return Err(missing(digest, "value")) };
    of_string(value)?;
    let Some(shape) = asset.get("shape") else { return Err(missing(asset, "shape")) };
    of_kind(shape, Kind::Object)?;
    let measures: &[&str] = if is_image { &["height", "width"] } else { &["duration"] };
    for name in measures {
        let Some(measure) = shape.get(name) else { return Err(missing(shape, name)) };
        of_kind(measure, Kind::Number)?;
    }
    Ok(())
}
