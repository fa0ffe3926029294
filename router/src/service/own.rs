//! The router's own tools, as every shell calls them: one that examines a library only in its turn.

use super::Service;
use crate::app;
use crate::json::Value;

/// The tools of the router that examine a library, each time in a child.
const EXAMINE: [&str; 3] = [
    "nexus-router.validate_adapter",
    "nexus-router.inspect_adapter",
    "nexus-router.generate_adapter_docs",
];

impl Service {
    /// Calls a tool of the router on a thread that may wait.
    ///
    /// # Errors
    /// When it cannot answer, or as many adapters are examined as may be at once.
    pub async fn own_tool(&self, name: String, request: Value) -> Result<Value, app::Error> {
        let service = self.clone();
        let turn = self.turn(None).await;
        let asked = tokio::task::spawn_blocking(move || {
            let answer = service.own_tool_now(&name, request);
            drop(turn);
            answer
        });
        asked.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a tool of the router panicked");
            Err(app::Error::Overloaded("the router made a mistake"))
        })
    }

    /// Calls a tool of the router on this thread.
    ///
    /// # Errors
    /// When it cannot answer, or as many adapters are examined as may be at once.
    pub fn own_tool_now(&self, name: &str, request: Value) -> Result<Value, app::Error> {
        let place = match EXAMINE.contains(&name) {
            false => None,
            true => {
                let busy = "as many adapters are examined as may be at once";
                Some(self.examination().ok_or(app::Error::Overloaded(busy))?)
            }
        };
        let answer = self.app().tool(name, request);
        drop(place);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_examines_is_a_tool_that_takes_a_library() {
        for tool in EXAMINE {
            assert!(app::TOOLS.iter().any(|known| known.id == tool), "{tool}");
        }
        assert!(!EXAMINE.contains(&"nexus-router.adapters"));
    }
}
