//! What the audit log tells of the daemon: who was refused, and who did what.

use super::support::Daemon;

#[test]
fn a_loud_address_does_not_hide_quiet_ones() {
    let daemon = Daemon::usual();
    let guess = |address| {
        let ask = daemon.get("/v1/runs").by_nobody().from(address);
        ask.header("Authorization", "Bearer wrong").refused(401, "TOKEN_INVALID");
    };
    for _ in 0..30 {
        guess([127, 0, 0, 9]);
    }
    guess([127, 0, 0, 77]);
    guess([127, 0, 0, 78]);
    for from in ["127.0.0.9", "127.0.0.77", "127.0.0.78"] {
        let event = daemon.audited(|event| event["payload"]["from"] == from);
        assert_eq!(event["payload"]["reason"], "TOKEN_INVALID", "{event}");
    }
}
