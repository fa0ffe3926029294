//! Loops of a parsed condition: the parser has expanded the macros already.

use cel::IdedExpr;
use cel::common::ast::{ComprehensionExpr, Expr, operators};

use super::node::LoopKind;

/// Parts of the loop that a macro of the parser expands to.
pub(super) struct LoopShape<'a> {
    pub(super) kind: LoopKind,
    pub(super) guard: Option<&'a IdedExpr>,
    pub(super) body: &'a IdedExpr,
}

impl<'a> LoopShape<'a> {
    pub(super) fn of(comprehension: &'a ComprehensionExpr) -> Option<Self> {
        let Expr::Call(step) = &comprehension.loop_step.expr else { return None };
        let shape = |kind, guard, body| Some(Self { kind, guard, body });
        match (step.func_name.as_str(), &step.args[..]) {
            (operators::LOGICAL_AND, [_, body]) => shape(LoopKind::All, None, body),
            (operators::LOGICAL_OR, [_, body]) => shape(LoopKind::Exists, None, body),
            (operators::ADD, [_, items]) => shape(LoopKind::Collect, None, only_item(items)?),
            (operators::CONDITIONAL, [guard, then, _]) => {
                let Expr::Call(sum) = &then.expr else { return None };
                let [_, items] = &sum.args[..] else { return None };
                match &items.expr {
                    Expr::List(_) => shape(LoopKind::Collect, Some(guard), only_item(items)?),
                    _ => shape(LoopKind::ExistsOne, None, guard),
                }
            }
            _ => None,
        }
    }
}

fn only_item(list: &IdedExpr) -> Option<&IdedExpr> {
    let Expr::List(list) = &list.expr else { return None };
    list.elements.first()
}
