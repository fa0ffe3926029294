//! Checks a parsed condition: names, functions, types and bounds. The result has everything resolved.

use super::function::{Function, MATCHES};
use super::names::PossibleTexts;
use super::node::{
    Arithmetic, Comparison, Literal, Loop, LoopKind, Node, RECORDS, VARIABLES, Variable,
};
use super::pattern::CompiledPattern;
use super::shape::LoopShape;
use super::types::{Type, arithmetic_type, of_literal, of_variable};
use cel::IdedExpr;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, MapExpr, SelectExpr, operators,
};

/// The most loops inside of each other.
const MAX_LOOPS: usize = 2;

/// Problem of one part of a condition.
#[derive(Debug)]
pub(super) struct Problem {
    /// The id of the part.
    pub(super) id: u64,
    pub(super) message: String,
    pub(super) hint: String,
}

/// Part with its type.
type Typed = (Node, Type);

/// Checks a whole condition.
pub(super) fn check(expression: &IdedExpr) -> Result<Node, Problem> {
    let mut checker = Checker { locals: Vec::new() };
    let (node, found) = checker.node(expression)?;
    if found.may_be_bool() {
        return Ok(node);
    }
    let message = format!("is of type {}, not bool", found.name());
    Err(problem(expression, message, "write a comparison, such as args.count > 10"))
}

struct Checker {
    /// The loop variables, the outermost first.
    locals: Vec<Local>,
}

/// Loop variable.
struct Local {
    name: String,
    found: Type,
    texts: PossibleTexts,
}

impl Checker {
    fn node(&mut self, expression: &IdedExpr) -> Result<Typed, Problem> {
        match &expression.expr {
            Expr::Literal(literal) => Ok(of_literal(literal)),
            Expr::Ident(name) => self.name(expression, name),
            Expr::Select(select) => self.select(expression, select),
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                let mut all: Option<Type> = None;
                for element in &list.elements {
                    let (node, found) = self.node(element)?;
                    all = Some(all.map_or(found.clone(), |all| all.or(&found)));
                    items.push(node);
                }
                Ok((Node::List(items), Type::List(Box::new(all.unwrap_or(Type::Dynamic)))))
            }
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => self.comprehension(expression, comprehension),
            Expr::Struct(_) => Err(problem(
                expression,
                "has a message literal".to_owned(),
                "write a map: {'key': value}",
            )),
            Expr::Unspecified => {
                Err(problem(expression, "is not complete".to_owned(), "complete the expression"))
            }
        }
    }

    fn name(&self, expression: &IdedExpr, name: &str) -> Result<Typed, Problem> {
        // A leading dot skips the loop variables.
        let plain = name.strip_prefix('.').unwrap_or(name);
        let local = self.locals.iter().rposition(|local| local.name == name);
        if let Some(slot) = local {
            return Ok((Node::Local(slot), self.locals[slot].found.clone()));
        }
        if let Some((_, variable)) = VARIABLES.iter().find(|(known, _)| *known == plain) {
            return Ok((Node::Variable(*variable), of_variable(*variable)));
        }
        if let Some((record, members)) = RECORDS.iter().find(|(known, _)| *known == plain) {
            let members: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
            let message = format!("uses {record} without a member");
            return Err(problem(
                expression,
                message,
                &format!("write {record}. and one of {}", members.join(", ")),
            ));
        }
        if let Some(name) = TYPE_NAMES.iter().find(|known| **known == plain) {
            return Ok((Node::Literal(Literal::Type(name)), Type::Meta));
        }
        let known = VARIABLES.iter().map(|(name, _)| *name);
        let known: Vec<&str> = known.chain(RECORDS.iter().map(|(name, _)| *name)).collect();
        let locals = self.locals.iter().map(|local| local.name.as_str());
        let hint = suggestion(name, known.iter().copied().chain(locals), &known);
        Err(problem(expression, format!("has the unknown variable {name}"), &hint))
    }

    fn select(&mut self, expression: &IdedExpr, select: &SelectExpr) -> Result<Typed, Problem> {
        let SelectExpr { operand, field, test } = select;
        if let Some(variable) = self.record_member(expression, operand, field)? {
            return Ok(match (variable, test) {
                (Variable::Hint(hint), true) => (Node::HasHint(hint), Type::Bool),
                (_, true) => (Node::Literal(Literal::Bool(true)), Type::Bool),
                (variable, false) => (Node::Variable(variable), of_variable(variable)),
            });
        }
        let (node, found) = self.node(operand)?;
        let member = match found {
            Type::Dynamic => Type::Dynamic,
            Type::Map(value) => *value,
            other => {
                let message = format!("selects .{field} of a value of type {}", other.name());
                return Err(problem(expression, message, "select members of maps only"));
            }
        };
        let (node, name) = (Box::new(node), field.as_str().into());
        Ok(if *test {
            (Node::Has(node, name), Type::Bool)
        } else {
            (Node::Select(node, name), member)
        })
    }

    /// Finds the variable behind a member of `caller`, `hints` or `run`.
    fn record_member(
        &self,
        expression: &IdedExpr,
        operand: &IdedExpr,
        field: &str,
    ) -> Result<Option<Variable>, Problem> {
        let Expr::Ident(name) = &operand.expr else { return Ok(None) };
        if self.locals.iter().any(|local| local.name == *name) {
            return Ok(None);
        }
        let plain = name.strip_prefix('.').unwrap_or(name);
        let Some((record, members)) = RECORDS.iter().find(|(known, _)| *known == plain) else {
            return Ok(None);
        };
        if let Some((_, variable)) = members.iter().find(|(known, _)| *known == field) {
            return Ok(Some(*variable));
        }
        let known: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
        let hint = suggestion(field, known.iter().copied(), &known);
        Err(problem(expression, format!("has the unknown member {record}.{field}"), &hint))
    }

    fn map(&mut self, map: &MapExpr) -> Result<Typed, Problem> {
        let mut entries = Vec::with_capacity(map.entries.len());
        let mut all: Option<Type> = None;
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            let (key, kind) = self.node(&entry.key)?;
            let keys = [Type::Dynamic, Type::Bool, Type::Int, Type::Uint, Type::String];
            if !keys.contains(&kind) {
                let message = format!("has a map key of type {}", kind.name());
                return Err(problem(
                    &entry.key,
                    message,
                    "use strings, integers or booleans as keys",
                ));
            }
            let (value, found) = self.node(&entry.value)?;
            all = Some(all.map_or(found.clone(), |all| all.or(&found)));
            entries.push((key, value));
        }
        Ok((Node::Map(entries), Type::Map(Box::new(all.unwrap_or(Type::Dynamic)))))
    }

    fn call(&mut self, expression: &IdedExpr, call: &CallExpr) -> Result<Typed, Problem> {
        if let (None, [one]) = (&call.target, &call.args[..]) {
            match call.func_name.as_str() {
                operators::LOGICAL_NOT => {
                    return Ok((Node::Not(Box::new(self.boolean(one)?)), Type::Bool));
                }
                operators::NEGATE => return self.negate(expression, one),
                _ => {}
            }
        }
        if let (None, [left, right]) = (&call.target, &call.args[..])
            && let Some(typed) = self.binary(expression, &call.func_name, (left, right))?
        {
            return Ok(typed);
        }
        if let (operators::CONDITIONAL, [test, then, otherwise]) =
            (call.func_name.as_str(), &call.args[..])
        {
            let test = self.boolean(test)?;
            let (then, one) = self.node(then)?;
            let (otherwise, other) = self.node(otherwise)?;
            let node = Node::Choose(Box::new(test), Box::new(then), Box::new(otherwise));
            return Ok((node, one.or(&other)));
        }
        self.function(expression, call)
    }

    fn boolean(&mut self, expression: &IdedExpr) -> Result<Node, Problem> {
        let (node, found) = self.node(expression)?;
        if found.may_be_bool() {
            return Ok(node);
        }
        let message = format!("uses a value of type {} as bool", found.name());
        Err(problem(expression, message, "write a comparison on both sides of && and ||"))
    }

    fn negate(&mut self, expression: &IdedExpr, operand: &IdedExpr) -> Result<Typed, Problem> {
        let (node, found) = self.node(operand)?;
        if !matches!(found, Type::Dynamic | Type::Int | Type::Double) {
            let message = format!("negates a value of type {}", found.name());
            return Err(problem(expression, message, "negate int and double only"));
        }
        Ok((Node::Negate(Box::new(node)), found))
    }

    fn binary(
        &mut self,
        expression: &IdedExpr,
        operator: &str,
        (left, right): (&IdedExpr, &IdedExpr),
    ) -> Result<Option<Typed>, Problem> {
        let logical = |left, right| (Box::new(left), Box::new(right));
        let compared = match operator {
            operators::LOGICAL_AND => {
                let (left, right) = logical(self.boolean(left)?, self.boolean(right)?);
                return Ok(Some((Node::And(left, right), Type::Bool)));
            }
            operators::LOGICAL_OR => {
                let (left, right) = logical(self.boolean(left)?, self.boolean(right)?);
                return Ok(Some((Node::Or(left, right), Type::Bool)));
            }
            operators::LESS => Some(Comparison::Less),
            operators::LESS_EQUALS => Some(Comparison::LessOrEqual),
            operators::GREATER => Some(Comparison::Greater),
            operators::GREATER_EQUALS => Some(Comparison::GreaterOrEqual),
            _ => None,
        };
        let computed = match operator {
            operators::ADD => Some(Arithmetic::Add),
            operators::SUBSTRACT => Some(Arithmetic::Subtract),
            operators::MULTIPLY => Some(Arithmetic::Multiply),
            operators::DIVIDE => Some(Arithmetic::Divide),
            operators::MODULO => Some(Arithmetic::Remainder),
            _ => None,
        };
        let other = [operators::EQUALS, operators::NOT_EQUALS, operators::IN, operators::INDEX];
        if compared.is_none() && computed.is_none() && !other.contains(&operator) {
            return Ok(None);
        }
        let (left, one) = self.node(left)?;
        let (right, other) = self.node(right)?;
        if computed.is_none() {
            self.refuse_upper_case(expression, &left, &right)?;
        }
        let (left, right) = (Box::new(left), Box::new(right));
        let wrong = |what: &str, hint: &str| {
            let message = format!("{what} {} and {}", one.name(), other.name());
            Err(problem(expression, message, hint))
        };
        if let Some(comparison) = compared {
            if !one.may_compare(&other) {
                return wrong(
                    "orders values of type",
                    "compare values of one type that has an order",
                );
            }
            return Ok(Some((Node::Compare(comparison, left, right), Type::Bool)));
        }
        if let Some(arithmetic) = computed {
            let Some(result) = arithmetic_type(arithmetic, &one, &other) else {
                let what = format!("applies {} to values of type", arithmetic.sign());
                return wrong(
                    &what,
                    "use values of one type; int(), double() and string() convert",
                );
            };
            return Ok(Some((Node::Compute(arithmetic, left, right), result)));
        }
        Ok(Some(match operator {
            operators::IN => match &other {
                Type::Dynamic => (Node::In(left, right), Type::Bool),
                Type::List(item) if one.may_equal(item) => (Node::In(left, right), Type::Bool),
                Type::Map(_) => (Node::In(left, right), Type::Bool),
                Type::List(item) => {
                    let message = format!("looks for {} in a list of {}", one.name(), item.name());
                    return Err(problem(expression, message, "use a list of values of that type"));
                }
                _ => return wrong("uses in with", "write a list or a map behind in"),
            },
            operators::INDEX => match (&one, &other) {
                (Type::Dynamic, _) => (Node::Index(left, right), Type::Dynamic),
                (Type::Map(value), _) => ((Node::Index(left, right)), value.as_ref().clone()),
                (Type::List(item), Type::Dynamic | Type::Int | Type::Uint | Type::Double) => {
                    (Node::Index(left, right), item.as_ref().clone())
                }
                _ => return wrong("indexes with", "index lists by int and maps by key"),
            },
            equality => {
                if !one.may_equal(&other) {
                    return wrong("compares values of type", "compare values of one type");
                }
                let equal = equality == operators::EQUALS;
                let node =
                    if equal { Node::Equal(left, right) } else { Node::NotEqual(left, right) };
                (node, Type::Bool)
            }
        }))
    }

    fn function(&mut self, expression: &IdedExpr, call: &CallExpr) -> Result<Typed, Problem> {
        let name = call.func_name.as_str();
        let given: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
        if name == MATCHES {
            return self.matches(expression, &given);
        }
        let Some(function) = Function::from_name(name) else {
            let shown = name.trim_matches(['_', '@']);
            let hint = nearest(name, Function::names()).map_or_else(
                || "use the functions of the CEL standard library".to_owned(),
                |meant| format!("did you mean {meant}?"),
            );
            return Err(problem(expression, format!("calls the unknown function {shown}"), &hint));
        };
        let has_receiver = call.target.is_some();
        if has_receiver && !function.takes_receiver() {
            let message = format!("calls {name} on a value");
            return Err(problem(expression, message, &format!("write {name}(value)")));
        }
        if !has_receiver && !function.is_global() {
            let message = format!("calls {name} without a value");
            return Err(problem(expression, message, &format!("write value.{name}()")));
        }
        let (least, most) = function.arity();
        if !(least..=most).contains(&given.len()) {
            let without_receiver = usize::from(has_receiver);
            let message = format!("calls {name} with {} arguments", call.args.len());
            let hint = format!("give {} at least", least - without_receiver);
            let hint =
                if least == most { hint.trim_end_matches(" at least").to_owned() } else { hint };
            return Err(problem(expression, message, &hint));
        }
        let mut arguments = Vec::with_capacity(given.len());
        for (index, argument) in given.into_iter().enumerate() {
            let (node, found) = self.node(argument)?;
            if !function.accepts(index, &found) {
                let message = format!("calls {name} with a value of type {}", found.name());
                return Err(problem(
                    argument,
                    message,
                    "convert the value, or choose another function",
                ));
            }
            arguments.push(node);
        }
        if let [text, part] = &arguments[..] {
            self.refuse_upper_case(expression, text, part)?;
        }
        let node = Node::Call(function, arguments);
        if !node.has_readable_literals() {
            let message = format!("calls {name} with a literal that it cannot read");
            return Err(problem(
                expression,
                message,
                "correct the literal; time zones are UTC or ±HH:MM",
            ));
        }
        Ok((node, function.result()))
    }

    fn matches(&mut self, expression: &IdedExpr, given: &[&IdedExpr]) -> Result<Typed, Problem> {
        let [subject, pattern] = given else {
            let message = format!("calls {MATCHES} with {} values", given.len());
            return Err(problem(expression, message, "write text.matches('pattern')"));
        };
        let Expr::Literal(LiteralValue::String(text)) = &pattern.expr else {
            let message = "matches a pattern that is not a literal".to_owned();
            return Err(problem(pattern, message, "write the pattern as a string literal"));
        };
        let (node, found) = self.node(subject)?;
        if !matches!(found, Type::Dynamic | Type::String) {
            let message = format!("calls {MATCHES} on a value of type {}", found.name());
            return Err(problem(subject, message, "match texts only"));
        }
        let is_name = self.texts(&node).name;
        match CompiledPattern::compile(text.inner(), is_name) {
            Ok(pattern) => Ok((Node::Matches(Box::new(node), pattern), Type::Bool)),
            Err(regex::Error::CompiledTooBig(_)) => {
                let message = "has a pattern that is too large".to_owned();
                Err(problem(pattern, message, "repeat less, or use a simpler pattern"))
            }
            Err(_) => {
                let message = "has an invalid pattern".to_owned();
                Err(problem(pattern, message, "write a regular expression in the syntax of RE2"))
            }
        }
    }

    fn texts(&self, node: &Node) -> PossibleTexts {
        PossibleTexts::of(node, &|slot| self.locals[slot].texts)
    }

    /// Refuses a comparison of a name with a literal that has upper case.
    fn refuse_upper_case(
        &self,
        expression: &IdedExpr,
        one: &Node,
        other: &Node,
    ) -> Result<(), Problem> {
        if !self.texts(one).never_equal(self.texts(other)) {
            return Ok(());
        }
        let message = "compares a name with a text that has upper case".to_owned();
        let hint = "write it in lower case: conditions read adapter, tool and method in lower case";
        Err(problem(expression, message, hint))
    }

    fn comprehension(
        &mut self,
        expression: &IdedExpr,
        comprehension: &ComprehensionExpr,
    ) -> Result<Typed, Problem> {
        let (range, found) = self.node(&comprehension.iter_range)?;
        let item = match found {
            Type::List(item) => *item,
            // The keys.
            Type::Map(_) | Type::Dynamic => Type::Dynamic,
            other => {
                let message = format!("loops over a value of type {}", other.name());
                return Err(problem(expression, message, "loop over a list or a map"));
            }
        };
        if self.locals.len() == MAX_LOOPS {
            let message = format!("has more than {MAX_LOOPS} macros inside of each other");
            return Err(problem(expression, message, "split the rule, or use the operator in"));
        }
        let Some(shape) = LoopShape::of(comprehension) else {
            let message = "has an unknown macro".to_owned();
            return Err(problem(expression, message, "use all, exists, exists_one, map or filter"));
        };
        let (name, texts) = (comprehension.iter_var.clone(), self.texts(&range));
        self.locals.push(Local { name, found: item, texts });
        let typed = self.loop_body(&shape);
        self.locals.pop();
        let (guard, (body, result)) = typed?;
        let LoopShape { kind, .. } = shape;
        Ok((Node::Loop(Box::new(Loop { kind, range, guard, body })), result))
    }

    fn loop_body(&mut self, shape: &LoopShape<'_>) -> Result<(Option<Node>, Typed), Problem> {
        let guard = shape.guard.map(|guard| self.boolean(guard)).transpose()?;
        if shape.kind == LoopKind::Collect {
            let (body, item) = self.node(shape.body)?;
            return Ok((guard, (body, Type::List(Box::new(item)))));
        }
        Ok((guard, (self.boolean(shape.body)?, Type::Bool)))
    }
}

/// Names of types that a condition may compare with `type(x)`.
const TYPE_NAMES: &[&str] =
    &["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

fn problem(part: &IdedExpr, message: String, hint: &str) -> Problem {
    Problem { id: part.id, message, hint: hint.to_owned() }
}

fn suggestion<'a>(name: &str, names: impl Iterator<Item = &'a str>, known: &[&str]) -> String {
    let meant = nearest(name, names).map_or_else(String::new, |it| format!("did you mean {it}? "));
    format!("{meant}Known are {}", known.join(", "))
}

fn nearest<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|word| (crate::near::likeness(text, word), word));
    let best = scored.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (best.0 > 0.8).then_some(best.1)
}
