//! Types of a condition's parts, as far as they are known when it is compiled.

use cel::common::ast::LiteralValue;

use super::node::{Arithmetic, HintMember, Literal, Node, Variable};

/// Type of a part. Arguments are dynamic: only a call has their types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Dynamic,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Box<Self>),
    Map(Box<Self>),
    /// Type of a type, as `type(x)` returns it.
    Meta,
}

impl Type {
    /// Returns the name that CEL has for the type.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Dynamic => "dyn",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Meta => "type",
        }
    }

    pub(super) const fn is_dynamic(&self) -> bool {
        matches!(self, Self::Dynamic)
    }

    pub(super) const fn is_numeric(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// Returns whether a value may be a boolean.
    pub(super) const fn may_be_bool(&self) -> bool {
        matches!(self, Self::Dynamic | Self::Bool)
    }

    /// Returns whether values of two types can be equal.
    pub(super) fn may_equal(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dynamic, _) | (_, Self::Dynamic) => true,
            (Self::List(item), Self::List(other)) | (Self::Map(item), Self::Map(other)) => {
                item.may_equal(other)
            }
            _ => self == other || self.is_numeric() && other.is_numeric(),
        }
    }

    /// Returns whether values of two types have an order.
    pub(super) fn may_compare(&self, other: &Self) -> bool {
        let ordered =
            |one: &Self| !matches!(one, Self::Null | Self::List(_) | Self::Map(_) | Self::Meta);
        ordered(self) && ordered(other) && self.may_equal(other)
    }

    /// Returns the type of values that are of one of two types.
    pub(super) fn or(self, other: &Self) -> Self {
        if self == *other { self } else { Self::Dynamic }
    }
}

/// Returns a literal with its type.
pub(super) fn of_literal(literal: &LiteralValue) -> (Node, Type) {
    match literal {
        LiteralValue::Null => (Node::Literal(Literal::Null), Type::Null),
        LiteralValue::Boolean(value) => (Node::Literal(Literal::Bool(*value.inner())), Type::Bool),
        LiteralValue::Int(value) => (Node::Literal(Literal::Int(*value.inner())), Type::Int),
        LiteralValue::UInt(value) => (Node::Literal(Literal::Uint(*value.inner())), Type::Uint),
        LiteralValue::Double(value) => {
            (Node::Literal(Literal::Double(*value.inner())), Type::Double)
        }
        LiteralValue::String(value) => {
            (Node::Literal(Literal::String(value.inner().into())), Type::String)
        }
        LiteralValue::Bytes(value) => {
            (Node::Literal(Literal::Bytes(value.inner().into())), Type::Bytes)
        }
    }
}

/// Returns the type of a variable.
pub(super) fn of_variable(variable: Variable) -> Type {
    match variable {
        Variable::Args => Type::Map(Box::new(Type::Dynamic)),
        Variable::CallerClaims => Type::Map(Box::new(Type::Dynamic)),
        Variable::Now => Type::Timestamp,
        Variable::Hint(
            HintMember::ReadOnly
            | HintMember::Destructive
            | HintMember::Idempotent
            | HintMember::OpenWorld,
        ) => Type::Bool,
        Variable::Adapter
        | Variable::Tool
        | Variable::Method
        | Variable::Class
        | Variable::CallerName
        | Variable::CallerScope
        | Variable::CallerRole
        | Variable::RunId
        | Variable::RunMode
        | Variable::RunGoal => Type::String,
    }
}

/// Returns the type of a result, or none if the operator does not take the two types.
pub(super) fn arithmetic_type(arithmetic: Arithmetic, one: &Type, other: &Type) -> Option<Type> {
    use Arithmetic::{Add, Remainder, Subtract};
    use Type::{Duration, Dynamic, Timestamp};
    let moves = matches!(arithmetic, Add | Subtract);
    match (one, other) {
        (Dynamic, Dynamic) => Some(Dynamic),
        (Dynamic, known) | (known, Dynamic) => {
            let sum =
                arithmetic == Add && matches!(known, Type::String | Type::Bytes | Type::List(_));
            let number = known.is_numeric() && (arithmetic != Remainder || *known != Type::Double);
            let time = moves && matches!(known, Timestamp | Duration);
            match known {
                Timestamp | Duration if time => Some(Dynamic),
                Type::List(_) if sum => Some(Type::List(Box::new(Dynamic))),
                _ => (sum || number).then(|| known.clone()),
            }
        }
        (Type::Int, Type::Int) | (Type::Uint, Type::Uint) => Some(one.clone()),
        (Type::Double, Type::Double) => (arithmetic != Remainder).then_some(Type::Double),
        (Type::String, Type::String) | (Type::Bytes, Type::Bytes) => {
            (arithmetic == Add).then(|| one.clone())
        }
        (Type::List(item), Type::List(also)) => {
            let item = item.as_ref().clone().or(also);
            (arithmetic == Add).then(|| Type::List(Box::new(item)))
        }
        (Timestamp, Duration) => moves.then_some(Timestamp),
        (Duration, Timestamp) => (arithmetic == Add).then_some(Timestamp),
        (Duration, Duration) => moves.then_some(Duration),
        (Timestamp, Timestamp) => (arithmetic == Subtract).then_some(Duration),
        _ => None,
    }
}
