//! Tells systemd, if it started the daemon, how far it is and that it is alive.

use sd_notify::NotifyState;

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the supervisor was not told");
    }
}

/// Says that requests are answered.
pub(super) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Says that the configuration is read again.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "the supervisor was not told"),
    }
}

/// Says that the daemon is on its way out.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Shows a sign of life as often as is asked for.
pub(super) async fn watchdog() {
    let Some(interval) = sd_notify::watchdog_enabled() else { return };
    loop {
        tokio::time::sleep(interval / 3).await;
        tell(&[NotifyState::Watchdog]);
    }
}
