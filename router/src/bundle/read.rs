//! Reads what a bundle says, and refuses what is no bundle. The first thing that is wrong is reported.

use super::{Error, VERSION};
use crate::digest::Digest;
use crate::json::{Object, Value};
use crate::store::{Header, Status};

/// What a bundle says, as far as it matters.
#[derive(Debug)]
pub(super) struct Bundle<'a> {
    pub(super) header: Header,
    pub(super) status: Status,
    /// The run as given, with whatever else is in it.
    pub(super) run: &'a Object,
    pub(super) events: Vec<Event<'a>>,
    pub(super) digest: Option<&'a str>,
    pub(super) head: Option<Digest>,
    pub(super) exported_at: Option<&'a str>,
}

/// An event of a bundle.
#[derive(Debug)]
pub(super) struct Event<'a> {
    pub(super) event_id: &'a str,
    pub(super) seq: i64,
    pub(super) kind: &'a str,
    pub(super) payload: &'a Object,
    pub(super) ts: &'a str,
    /// The event as given, with whatever else is in it.
    pub(super) given: &'a Object,
}

impl Event<'_> {
    /// The members that an event has.
    const MEMBERS: [&'static str; 6] = ["event_id", "run_id", "seq", "type", "payload", "ts"];

    /// Says whether nothing else was given.
    pub(super) fn is_plain(&self) -> bool {
        self.given.len() == Self::MEMBERS.len()
    }
}

impl<'a> Bundle<'a> {
    pub(super) fn read(bundle: &'a Value) -> Result<Self, Error> {
        let top = Place::Root.object(bundle)?;
        for name in ["bundle_version", "run", "events"] {
            Place::Root.required(top, name)?;
        }
        let version = Place::Root.text(top, "bundle_version")?;
        if version != VERSION {
            let message =
                format!("bundle_version is '{version}', and this program reads {VERSION}");
            return Err(Place::Member("bundle_version").error(message));
        }
        let run = Place::Member("run").object(Place::Root.required(top, "run")?)?;
        let (header, status) = read_run(run)?;
        let given = Place::Root.required(top, "events")?;
        let Value::Array(given) = given else {
            return Err(Place::Member("events").mistyped(given, "an array"));
        };
        let mut events = Vec::with_capacity(given.len());
        for (index, event) in given.iter().enumerate() {
            events.push(read_event(index, event, &header.run_id)?);
        }
        let exported_at = optional_text(top, &Place::Root, "exported_at")?;
        let digest = match top.get("digests") {
            None => None,
            Some(digests) => {
                let place = Place::Member("digests");
                optional_text(place.object(digests)?, &place, "sha256")?
            }
        };
        let head = top.get("chain").map(read_chain).transpose()?;
        Ok(Self { header, status, run, events, digest, head, exported_at })
    }
}

fn read_run(run: &Object) -> Result<(Header, Status), Error> {
    let place = Place::Member("run");
    for name in ["run_id", "mode", "goal", "status", "created_at"] {
        place.required(run, name)?;
    }
    let text = |name| place.text(run, name).map(str::to_owned);
    let header = Header {
        run_id: text("run_id")?,
        mode: text("mode")?,
        goal: text("goal")?,
        created_at: text("created_at")?,
    };
    if header.run_id.is_empty() {
        return Err(place.member_error("run_id", "run.run_id is empty".to_owned()));
    }
    let status = text("status")?;
    match Status::from_name(&status) {
        Some(status) => Ok((header, status)),
        None => {
            let known = Status::ALL.map(Status::name).join(", ");
            let message = format!("run.status is '{status}', not one of {known}");
            Err(place.member_error("status", message))
        }
    }
}

fn read_event<'a>(index: usize, event: &'a Value, run_id: &str) -> Result<Event<'a>, Error> {
    let place = Place::Event(index);
    let given = place.object(event)?;
    for name in Event::MEMBERS {
        place.required(given, name)?;
    }
    let text = |name| place.text(given, name);
    let seq = place.required(given, "seq")?;
    let payload = place.required(given, "payload")?;
    let mistyped = |name: &str, value: &Value, wanted: &str| {
        let shown = format!("{}.{name}", place.shown());
        place.member_error(name, mistype(&shown, value, wanted))
    };
    let read = Event {
        event_id: text("event_id")?,
        seq: seq.as_i64().ok_or_else(|| mistyped("seq", seq, "an integer of 64 bits"))?,
        kind: text("type")?,
        payload: payload.as_object().ok_or_else(|| mistyped("payload", payload, "an object"))?,
        ts: text("ts")?,
        given,
    };
    let stated = text("run_id")?;
    if stated != run_id {
        let message = format!("{}.run_id is '{stated}', and the run is '{run_id}'", place.shown());
        return Err(place.member_error("run_id", message));
    }
    Ok(read)
}

fn read_chain(chain: &Value) -> Result<Digest, Error> {
    let place = Place::Member("chain");
    let chain = place.object(chain)?;
    let alg = place.text(chain, "alg")?;
    if alg != "sha256" {
        let message = format!("chain.alg is '{alg}', and this program knows sha256");
        return Err(place.member_error("alg", message));
    }
    let head = place.text(chain, "head")?;
    head.parse().map_err(|error| place.member_error("head", format!("chain.head: {error}")))
}

fn optional_text<'a>(
    object: &'a Object,
    place: &Place<'_>,
    name: &str,
) -> Result<Option<&'a str>, Error> {
    object.contains_key(name).then(|| place.text(object, name)).transpose()
}

/// Where in a bundle a value stands.
enum Place<'a> {
    Root,
    Member(&'a str),
    Event(usize),
}

impl Place<'_> {
    fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Member(name) => format!("/{name}"),
            Self::Event(index) => format!("/events/{index}"),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Root => "the bundle".to_owned(),
            Self::Member(name) => (*name).to_owned(),
            Self::Event(index) => format!("events[{index}]"),
        }
    }

    fn shown_member(&self, name: &str) -> String {
        match self {
            Self::Root => name.to_owned(),
            Self::Member(_) | Self::Event(_) => format!("{}.{name}", self.shown()),
        }
    }

    fn error(&self, message: String) -> Error {
        Error::at(self.pointer(), message)
    }

    fn member_error(&self, name: &str, message: String) -> Error {
        Error::at(format!("{}/{name}", self.pointer()), message)
    }

    fn mistyped(&self, value: &Value, wanted: &str) -> Error {
        self.error(mistype(&self.shown(), value, wanted))
    }

    fn object<'v>(&self, value: &'v Value) -> Result<&'v Object, Error> {
        value.as_object().ok_or_else(|| self.mistyped(value, "an object"))
    }

    fn required<'v>(&self, object: &'v Object, name: &str) -> Result<&'v Value, Error> {
        object.get(name).ok_or_else(|| Error::missing(&self.shown_member(name)))
    }

    fn text<'v>(&self, object: &'v Object, name: &str) -> Result<&'v str, Error> {
        let value = self.required(object, name)?;
        value.as_str().ok_or_else(|| {
            self.member_error(name, mistype(&self.shown_member(name), value, "a string"))
        })
    }
}

fn mistype(shown: &str, value: &Value, wanted: &str) -> String {
    format!("{shown} is of type {}, not {wanted}", value.type_name())
}
