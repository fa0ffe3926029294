//! Policies of configuration files, without their adapters.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::{App, Error};
use super::uncompiled;
use crate::access;
use crate::config::{ConfigFile, Origin, Origins};
use crate::interface::UnusableContract;
use crate::policy::Keeping;
use crate::policy::history::{PolicyContext, PolicyFile, RegisteredOperation};
use crate::toolspec::registered_operation;

impl App {
    /// Takes the policy of a configuration with the contracts, registered tools and tokens of this app. No adapter is
    /// loaded.
    ///
    /// # Errors
    /// When the contracts or the registered tools cannot be read.
    pub(crate) fn policy_file(&self, origins: &Origins) -> Result<PolicyFile, Error> {
        let config: &ConfigFile = &self.config();
        let contracts = self.contracts_of(config, None)?;
        let mut interfaces = BTreeMap::new();
        let mut unusable: BTreeMap<String, UnusableContract> = contracts.unusable.all().collect();
        for (id, interface) in contracts.interfaces.iter() {
            match Keeping::of(interface) {
                Ok(keeping) => drop(interfaces.insert(id.clone(), Arc::new(keeping))),
                Err(message) => drop(unusable.insert(id.clone(), uncompiled(id, message))),
            }
        }
        let registered = contracts.tools.iter().filter_map(|standing| {
            let document = standing.document.as_ref()?;
            let interface_id = document.adapter_id.clone()?;
            let interface = contracts.interfaces.get(&interface_id)?;
            let (operation, action_class) = registered_operation(interface, document)?;
            Some(RegisteredOperation {
                name: standing.tool_id.clone(),
                interface_id,
                tool: operation.tool.clone(),
                method: operation.method.clone(),
                action_class,
                is_offered: standing.disabled.is_none(),
            })
        });
        let registered = registered.collect();
        let tokens = self.data_dir().ok().map(|directory| directory.join(access::FILE_NAME));
        let tokens = tokens.and_then(|file| access::list(&file).ok()).unwrap_or_default();
        let token_roles = tokens.into_iter().map(|token| (token.name, token.role)).collect();
        let rules = 0..config.policy.rules.len();
        let rule_lines = rules.map(|index| match origins.of(&format!("policy.rules[{index}]")) {
            Origin::File { line, .. } => Some(line),
            Origin::Variable(_) | Origin::Default => None,
        });
        let rule_lines = rule_lines.collect();
        let context = PolicyContext { interfaces, unusable, registered, token_roles, rule_lines };
        Ok(PolicyFile::new(config, context))
    }
}
