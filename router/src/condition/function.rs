//! Functions of the CEL standard library that conditions may call.

use super::types::Type;

/// Function of the standard library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Bool,
    Bytes,
    Double,
    Duration,
    Dyn,
    Int,
    String,
    Timestamp,
    Type,
    Uint,
    /// Part of a moment, or a whole duration in a unit.
    Time(TimePart),
}

/// Part of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimePart {
    FullYear,
    /// From 0.
    Month,
    /// From 1.
    Date,
    /// From 0.
    DayOfMonth,
    /// From 0, which is Sunday.
    DayOfWeek,
    /// From 0.
    DayOfYear,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

/// The name of the function whose pattern must be a literal.
pub(super) const MATCHES: &str = "matches";

const NAMES: &[(&str, Function)] = &[
    ("size", Function::Size),
    ("contains", Function::Contains),
    ("startsWith", Function::StartsWith),
    ("endsWith", Function::EndsWith),
    ("bool", Function::Bool),
    ("bytes", Function::Bytes),
    ("double", Function::Double),
    ("duration", Function::Duration),
    ("dyn", Function::Dyn),
    ("int", Function::Int),
    ("string", Function::String),
    ("timestamp", Function::Timestamp),
    ("type", Function::Type),
    ("uint", Function::Uint),
    ("getFullYear", Function::Time(TimePart::FullYear)),
    ("getMonth", Function::Time(TimePart::Month)),
    ("getDate", Function::Time(TimePart::Date)),
    ("getDayOfMonth", Function::Time(TimePart::DayOfMonth)),
    ("getDayOfWeek", Function::Time(TimePart::DayOfWeek)),
    ("getDayOfYear", Function::Time(TimePart::DayOfYear)),
    ("getHours", Function::Time(TimePart::Hours)),
    ("getMinutes", Function::Time(TimePart::Minutes)),
    ("getSeconds", Function::Time(TimePart::Seconds)),
    ("getMilliseconds", Function::Time(TimePart::Milliseconds)),
];

impl Function {
    /// Names of everything that a condition may call.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        let macros = ["has", "all", "exists", "exists_one", "map", "filter", MATCHES];
        NAMES.iter().map(|(name, _)| *name).chain(macros)
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
    }

    /// Returns whether the function is called on a receiver.
    pub(super) const fn takes_receiver(self) -> bool {
        matches!(
            self,
            Self::Size | Self::Contains | Self::StartsWith | Self::EndsWith | Self::Time(_)
        )
    }

    /// Returns whether the function is called without a receiver.
    pub(super) const fn is_global(self) -> bool {
        matches!(self, Self::Size) || !self.takes_receiver()
    }

    /// Returns the least and the greatest number of arguments, with the receiver.
    pub(super) const fn arity(self) -> (usize, usize) {
        match self {
            Self::Contains | Self::StartsWith | Self::EndsWith => (2, 2),
            // A moment may have a time zone.
            Self::Time(_) => (1, 2),
            _ => (1, 1),
        }
    }

    /// Returns whether an argument may be of a type.
    pub(super) fn accepts(self, argument: usize, given: &Type) -> bool {
        let text = matches!(given, Type::String);
        if given.is_dynamic() {
            return true;
        }
        if argument > 0 {
            return text;
        }
        match self {
            Self::Contains | Self::StartsWith | Self::EndsWith => text,
            Self::Size => text || matches!(given, Type::Bytes | Type::List(_) | Type::Map(_)),
            Self::Bool => text || *given == Type::Bool,
            Self::Bytes => text || *given == Type::Bytes,
            Self::Double | Self::Uint => text || given.is_numeric(),
            Self::Int => text || given.is_numeric() || *given == Type::Timestamp,
            Self::Duration => text || *given == Type::Duration,
            Self::Timestamp => text || matches!(given, Type::Timestamp | Type::Int),
            Self::String => {
                !matches!(given, Type::Null | Type::List(_) | Type::Map(_) | Type::Meta)
            }
            Self::Time(part) => match given {
                Type::Timestamp => true,
                Type::Duration => part.is_unit(),
                _ => false,
            },
            Self::Dyn | Self::Type => true,
        }
    }

    /// Returns the type of the result.
    pub(super) const fn result(self) -> Type {
        match self {
            Self::Size | Self::Int | Self::Time(_) => Type::Int,
            Self::Contains | Self::StartsWith | Self::EndsWith | Self::Bool => Type::Bool,
            Self::Bytes => Type::Bytes,
            Self::Double => Type::Double,
            Self::Duration => Type::Duration,
            Self::Dyn => Type::Dynamic,
            Self::String => Type::String,
            Self::Timestamp => Type::Timestamp,
            Self::Type => Type::Meta,
            Self::Uint => Type::Uint,
        }
    }
}

impl TimePart {
    /// Returns whether durations have the part, too.
    pub(super) const fn is_unit(self) -> bool {
        matches!(self, Self::Hours | Self::Minutes | Self::Seconds | Self::Milliseconds)
    }
}
