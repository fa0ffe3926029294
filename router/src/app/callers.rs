//! Callers of runs that a process without a listener continues: checked by the file of the tokens.

use std::path::PathBuf;

use super::App;
use crate::access;
use crate::caller::ValidCaller;
use crate::clock::Clock;

impl App {
    /// Has the router check callers by the file of the tokens, unless a service does so already. Commands and servers
    /// without tokens use it: they continue runs that callers of the daemon began.
    pub fn check_callers_by_file(&self) {
        let Some(file) = self.token_file() else { return };
        let roles = self.config().tokens;
        self.caller_check().set(move |caller| {
            let Some(id) = &caller.token_id else { return Ok(ValidCaller::default()) };
            // A file that cannot be read revokes nothing: this user may be another than the daemon's.
            let Ok(tokens) = access::list(&file) else { return Ok(ValidCaller::default()) };
            let token = tokens.iter().find(|token| token.id == *id);
            let configured = |token: &access::Token| {
                roles.iter().find(|entry| entry.name == token.name).and_then(|entry| entry.role)
            };
            access::check_caller(caller, token, configured, Clock::System.now())
        });
    }

    /// Returns the file of the tokens that belongs to the store: beside it, or in the data directory of a store that no
    /// option names.
    fn token_file(&self) -> Option<PathBuf> {
        let beside = self.db().ok()?.parent().map(|directory| directory.join(access::FILE_NAME));
        let own = || self.data_dir().ok().map(|directory| directory.join(access::FILE_NAME));
        let is_named = self.named.db.is_some() || self.environment.db.is_some();
        let files = [beside, own().filter(|_| !is_named)];
        files.into_iter().flatten().find(|file| file.exists())
    }
}
