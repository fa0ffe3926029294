//! News of a connection: which are asked for, as long as it lasts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_router_sdk::{Level, Object};
use rmcp::model::{ServerCapabilities, SubscriptionFilter};
use rmcp::service::Subscription;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, Question};
use crate::ending::Ending;

/// The time for one subscription.
const TIME: Duration = Duration::from_secs(30);

/// The pauses before news are asked for again, the first and the longest.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// Asks for news over a connection until another one takes its place. They are told where messages come in.
pub(crate) async fn follow(live: Arc<Connection>, followed: watch::Receiver<BTreeSet<String>>) {
    let asked = async {
        if live.is_modern() {
            listen(&live, followed).await;
        } else {
            subscribe_again(&live, &followed).await;
        }
    };
    tokio::select! {
        () = asked => {}
        () = live.wire().retirement() => {}
    }
}

/// Follows again what was followed over the connection before.
async fn subscribe_again(live: &Connection, followed: &watch::Receiver<BTreeSet<String>>) {
    let uris = followed.borrow().clone();
    for uri in uris {
        let params: Object = [("uri".to_owned(), uri.into())].into_iter().collect();
        let question =
            Question { method: "resources/subscribe", params, context: None, kind: "resource" };
        let ending = Ending::at(Instant::now() + TIME, &CancellationToken::new());
        if let Err(failure) = live.request(question, &ending).await {
            live.wire().log().tell(Level::Warn, &failure.error.message);
        }
    }
}

/// Listens, in the new way: one long request says what for.
async fn listen(live: &Connection, mut followed: watch::Receiver<BTreeSet<String>>) {
    let mut current: Option<Subscription> = None;
    let mut pause = PAUSE;
    loop {
        let filter = filter(live.offers(), &followed.borrow_and_update());
        // The new one begins before the former one ends, so that nothing is missed.
        let next = if filter == SubscriptionFilter::new() {
            None
        } else {
            match live.peer().listen(filter).await {
                Ok(subscription) => Some(subscription),
                Err(error) => {
                    let text = format!("the MCP server does not tell of changes: {error}");
                    live.wire().log().pass(Level::Warn, &text, None);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST);
                    continue;
                }
            }
        };
        drop(std::mem::replace(&mut current, next));
        let begun = Instant::now();
        tokio::select! {
            () = heard(&mut current) => {
                // It ended by itself. One that does so at once is not asked again at once.
                if begun.elapsed() > LONGEST {
                    pause = PAUSE;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
            changed = followed.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

/// Takes what comes, until nothing does any more.
async fn heard(subscription: &mut Option<Subscription>) {
    match subscription {
        Some(subscription) => while let Ok(Some(_)) = subscription.next().await {},
        None => std::future::pending().await,
    }
}

fn filter(offers: &ServerCapabilities, followed: &BTreeSet<String>) -> SubscriptionFilter {
    let mut filter = SubscriptionFilter::new();
    let offered = |changes: Option<bool>| changes.filter(|changes| *changes);
    filter.tools_list_changed = offers.tools.as_ref().and_then(|tools| offered(tools.list_changed));
    filter.prompts_list_changed =
        offers.prompts.as_ref().and_then(|prompts| offered(prompts.list_changed));
    filter.resources_list_changed =
        offers.resources.as_ref().and_then(|resources| offered(resources.list_changed));
    if !followed.is_empty() {
        filter.resource_subscriptions = Some(followed.iter().cloned().collect());
    }
    filter
}
