//! Evaluates a condition for one call. Every step spends units of a budget, which bounds the time for any arguments.

use std::cmp::Ordering;
use std::rc::Rc;

use super::facts::ReadableFacts;
use super::function::Function;
use super::node::{Arithmetic, Comparison, Literal, Loop, LoopKind, Node, Variable};
use super::value::{Value, equal, order};
use super::{arithmetic, convert};
use crate::json::Object;

/// Reason why a condition has no result. None shows a value of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A map has no such member.
    Member,
    /// A list has no such element.
    Index,
    /// An operator or function does not take the types of its values.
    Type,
    /// A number is beyond its type.
    Overflow,
    /// A division by zero.
    Zero,
    /// A value cannot be converted.
    Conversion,
    /// A map literal has a key twice.
    Key,
    /// The record of the call lacks a fact.
    Unknown,
    /// The budget is spent.
    Budget,
}

/// Units that the evaluations of one decision may take.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
}

impl Budget {
    /// Bytes of text that an operation handles in one unit.
    const BYTES: usize = 16;

    pub(super) const fn new(units: usize) -> Self {
        Self { left: units }
    }

    pub(super) fn spend(&mut self, units: usize) -> Result<(), Fault> {
        match self.left.checked_sub(units) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                // A spent budget also stops later, cheaper operations.
                self.left = 0;
                Err(Fault::Budget)
            }
        }
    }

    pub(super) fn spend_bytes(&mut self, bytes: usize) -> Result<(), Fault> {
        self.spend(bytes / Self::BYTES)
    }
}

/// Evaluation of one condition.
pub(super) struct Evaluation<'a, 'b> {
    facts: &'a ReadableFacts<'a>,
    /// Values of the loop variables, the outermost first.
    locals: Vec<Value<'a>>,
    pub(super) budget: &'b mut Budget,
}

static NO_CLAIMS: Object = Object::new();

impl<'a, 'b> Evaluation<'a, 'b> {
    pub(super) const fn new(facts: &'a ReadableFacts<'a>, budget: &'b mut Budget) -> Self {
        Self { facts, locals: Vec::new(), budget }
    }

    /// Evaluates a part to true or false.
    pub(super) fn boolean(&mut self, node: &'a Node) -> Result<bool, Fault> {
        match self.value(node)? {
            Value::Bool(value) => Ok(value),
            _ => Err(Fault::Type),
        }
    }

    pub(super) fn value(&mut self, node: &'a Node) -> Result<Value<'a>, Fault> {
        self.budget.spend(1)?;
        Ok(match node {
            Node::Literal(literal) => of_literal(literal),
            Node::Variable(variable) => self.variable(*variable)?,
            Node::Local(slot) => self.locals.get(*slot).cloned().ok_or(Fault::Type)?,
            Node::Select(map, name) => {
                let map = self.value(map)?;
                map.member(&Value::Str(name), self.budget)?.ok_or(Fault::Member)?
            }
            Node::Has(map, name) => {
                let map = self.value(map)?;
                Value::Bool(map.member(&Value::Str(name), self.budget)?.is_some())
            }
            Node::HasHint(hint) => Value::Bool(self.facts.hint(*hint)?.is_some()),
            Node::Index(container, index) => {
                let (container, index) = (self.value(container)?, self.value(index)?);
                self.index(&container, &index)?
            }
            Node::And(one, other) => Value::Bool(self.decide(one, other, false)?),
            Node::Or(one, other) => Value::Bool(self.decide(one, other, true)?),
            Node::Not(one) => Value::Bool(!self.boolean(one)?),
            Node::Negate(one) => match self.value(one)?.computable(self.budget)? {
                Value::Int(number) => Value::Int(number.checked_neg().ok_or(Fault::Overflow)?),
                Value::Double(number) => Value::Double(-number),
                _ => return Err(Fault::Type),
            },
            Node::Choose(test, then, otherwise) => {
                let next = if self.boolean(test)? { then } else { otherwise };
                self.value(next)?
            }
            Node::Equal(one, other) => Value::Bool(self.equal(one, other)?),
            Node::NotEqual(one, other) => Value::Bool(!self.equal(one, other)?),
            Node::Compare(comparison, one, other) => {
                let (one, other) = (self.value(one)?, self.value(other)?);
                let order = order(&one, &other, self.budget)?;
                Value::Bool(match comparison {
                    Comparison::Less => order == Ordering::Less,
                    Comparison::LessOrEqual => order != Ordering::Greater,
                    Comparison::Greater => order == Ordering::Greater,
                    Comparison::GreaterOrEqual => order != Ordering::Less,
                })
            }
            Node::Compute(operator, one, other) => self.compute(*operator, one, other)?,
            Node::In(one, other) => {
                let (value, container) = (self.value(one)?, self.value(other)?);
                Value::Bool(self.contains(&container, &value)?)
            }
            Node::List(items) => {
                let items = items.iter().map(|item| self.value(item));
                Value::List(Rc::new(items.collect::<Result<_, _>>()?))
            }
            Node::Map(entries) => self.map(entries)?,
            Node::Call(function, arguments) => self.call(*function, arguments)?,
            Node::Matches(subject, pattern) => {
                let subject = self.value(subject)?;
                let text = subject.as_str().ok_or(Fault::Type)?;
                self.budget.spend(pattern.steps(text))?;
                Value::Bool(pattern.is_match(text))
            }
            Node::Loop(one) => self.run_loop(one)?,
        })
    }

    fn variable(&self, variable: Variable) -> Result<Value<'a>, Fault> {
        let facts = self.facts;
        let call = &facts.call;
        Ok(match variable {
            Variable::Args => Value::Object(call.args),
            Variable::Adapter => Value::Str(&facts.adapter),
            Variable::Tool => Value::Str(&facts.tool),
            Variable::Method => Value::Str(&facts.method),
            Variable::Class => Value::Str(call.class),
            Variable::CallerName => Value::Str(facts.caller_name()?),
            Variable::CallerScope => Value::Str(facts.caller_scope()?),
            Variable::CallerRole => Value::Str(call.caller_role),
            Variable::CallerClaims => Value::Object(&NO_CLAIMS),
            Variable::RunId => Value::Str(call.run_id),
            Variable::RunMode => Value::Str(call.run_mode),
            Variable::RunGoal => Value::Str(call.run_goal),
            Variable::Hint(hint) => Value::Bool(facts.hint(hint)?.ok_or(Fault::Member)?),
            Variable::Now => {
                let now = jiff::Timestamp::from_millisecond(call.now.as_millis());
                Value::Timestamp(now.map_err(|_| Fault::Overflow)?)
            }
        })
    }

    /// Evaluates `&&` and `||`: one side that decides makes an error of the other one irrelevant.
    fn decide(&mut self, one: &'a Node, other: &'a Node, decisive: bool) -> Result<bool, Fault> {
        let first = match self.boolean(one) {
            Ok(value) if value == decisive => return Ok(value),
            Err(Fault::Budget) => return Err(Fault::Budget),
            first => first,
        };
        match self.boolean(other)? {
            value if value == decisive => Ok(value),
            _ => first,
        }
    }

    fn equal(&mut self, one: &'a Node, other: &'a Node) -> Result<bool, Fault> {
        let (one, other) = (self.value(one)?, self.value(other)?);
        equal(&one, &other, self.budget)
    }

    fn index(&mut self, container: &Value<'a>, index: &Value<'a>) -> Result<Value<'a>, Fault> {
        if matches!(container, Value::Object(_) | Value::Map(_)) {
            return container.member(index, self.budget)?.ok_or(Fault::Member);
        }
        if !matches!(container, Value::Array(_) | Value::List(_)) {
            return Err(Fault::Type);
        }
        let position = match index {
            Value::Int(position) => usize::try_from(*position).ok(),
            Value::Uint(position) => usize::try_from(*position).ok(),
            Value::Double(position) => convert::whole(*position).and_then(|it| it.try_into().ok()),
            Value::BigInt(_) => None,
            _ => return Err(Fault::Type),
        };
        position.and_then(|position| container.item(position)).ok_or(Fault::Index)
    }

    fn contains(&mut self, container: &Value<'a>, value: &Value<'a>) -> Result<bool, Fault> {
        match container {
            Value::Object(_) | Value::Map(_) => Ok(container.member(value, self.budget)?.is_some()),
            Value::Array(_) | Value::List(_) => {
                for index in 0..container.count().unwrap_or_default() {
                    let item = container.item(index).ok_or(Fault::Index)?;
                    if equal(&item, value, self.budget)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => Err(Fault::Type),
        }
    }

    fn map(&mut self, entries: &'a [(Node, Node)]) -> Result<Value<'a>, Fault> {
        let mut map: Vec<(Value<'a>, Value<'a>)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key = self.value(key)?;
            let is_key = key.as_str().is_some()
                || matches!(key, Value::Bool(_) | Value::Int(_) | Value::Uint(_));
            if !is_key {
                return Err(Fault::Type);
            }
            for (other, _) in &map {
                if equal(other, &key, self.budget)? {
                    return Err(Fault::Key);
                }
            }
            let value = self.value(value)?;
            map.push((key, value));
        }
        Ok(Value::Map(Rc::new(map)))
    }

    fn compute(
        &mut self,
        operator: Arithmetic,
        one: &'a Node,
        other: &'a Node,
    ) -> Result<Value<'a>, Fault> {
        let one = self.value(one)?.computable(self.budget)?;
        let other = self.value(other)?.computable(self.budget)?;
        arithmetic::compute(operator, &one, &other, self.budget)
    }

    fn call(&mut self, function: Function, arguments: &'a [Node]) -> Result<Value<'a>, Fault> {
        let mut arguments = arguments.iter();
        let first = self.value(arguments.next().ok_or(Fault::Type)?)?;
        let second = arguments.next().map(|argument| self.value(argument)).transpose()?;
        convert::call(function, first, second.as_ref(), self.budget)
    }

    fn run_loop(&mut self, one: &'a Loop) -> Result<Value<'a>, Fault> {
        let range = self.value(&one.range)?;
        let count = range.count().ok_or(Fault::Type)?;
        let mut keys = match &range {
            Value::Object(object) => Some(object.keys()),
            _ => None,
        };
        let mut state = LoopState::default();
        for index in 0..count {
            self.budget.spend(1)?;
            let item = match (&mut keys, &range) {
                (Some(keys), _) => keys.next().map(Value::Str),
                (None, Value::Map(entries)) => entries.get(index).map(|(key, _)| key.clone()),
                (None, range) => range.item(index),
            };
            self.locals.push(item.ok_or(Fault::Index)?);
            let goes_on = self.iterate(one, &mut state);
            self.locals.pop();
            if !goes_on? {
                break;
            }
        }
        state.finish(one.kind)
    }

    /// Evaluates a loop for one element. The result is whether the loop goes on.
    fn iterate(&mut self, one: &'a Loop, state: &mut LoopState<'a>) -> Result<bool, Fault> {
        if one.kind == LoopKind::Collect {
            let guarded = one.guard.as_ref().map(|guard| self.boolean(guard)).transpose()?;
            if guarded != Some(false) {
                state.items.push(self.value(&one.body)?);
            }
            return Ok(true);
        }
        let decisive = one.kind == LoopKind::Exists;
        match self.boolean(&one.body) {
            Err(Fault::Budget) => Err(Fault::Budget),
            Err(fault) if one.kind == LoopKind::ExistsOne => Err(fault),
            // A later element may decide.
            Err(fault) => {
                state.fault = Some(fault);
                Ok(true)
            }
            Ok(value) if one.kind == LoopKind::ExistsOne => {
                state.found += usize::from(value);
                Ok(true)
            }
            Ok(value) => {
                state.decided = (value == decisive).then_some(value);
                Ok(state.decided.is_none())
            }
        }
    }
}

/// State of a loop.
#[derive(Default)]
struct LoopState<'a> {
    items: Vec<Value<'a>>,
    found: usize,
    decided: Option<bool>,
    fault: Option<Fault>,
}

impl<'a> LoopState<'a> {
    fn finish(self, kind: LoopKind) -> Result<Value<'a>, Fault> {
        match (kind, self.decided, self.fault) {
            (LoopKind::Collect, ..) => Ok(Value::List(Rc::new(self.items))),
            (LoopKind::ExistsOne, ..) => Ok(Value::Bool(self.found == 1)),
            (_, Some(decided), _) => Ok(Value::Bool(decided)),
            (_, None, Some(fault)) => Err(fault),
            (kind, None, None) => Ok(Value::Bool(kind == LoopKind::All)),
        }
    }
}

fn of_literal(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::Str(text),
        Literal::Bytes(bytes) => Value::Bytes(bytes),
        Literal::Type(name) => Value::Type(name),
    }
}
