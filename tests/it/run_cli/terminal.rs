//! What people see on a terminal: progress, and a run that goes on.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, Stdio};

use rustix::pty::OpenptFlags;

use super::completed;
use super::interrupted::Held;
use crate::support::{PROGRAM, World};

/// A program with a terminal for both its outputs.
struct OnTerminal {
    child: Child,
    screen: File,
}

impl OnTerminal {
    fn start(world: &World, arguments: &[&str]) -> Self {
        let controller = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&controller).unwrap();
        rustix::pty::unlockpt(&controller).unwrap();
        let name = rustix::pty::ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
        let no_control = rustix::fs::OFlags::NOCTTY.bits().cast_signed();
        let terminal =
            File::options().read(true).write(true).custom_flags(no_control).open(name).unwrap();
        let child = Command::new(PROGRAM)
            .args(arguments)
            .current_dir(world.directory.path())
            .env_clear()
            .stderr(Stdio::from(OwnedFd::from(terminal.try_clone().unwrap())))
            .stdout(Stdio::from(OwnedFd::from(terminal)))
            .spawn()
            .unwrap();
        Self { child, screen: File::from(controller) }
    }

    /// Reads until the screen has shown a text.
    fn shows(&mut self, text: &str) -> String {
        let mut shown = Vec::new();
        let mut byte = [0];
        while !String::from_utf8_lossy(&shown).contains(text) {
            self.screen.read_exact(&mut byte).unwrap();
            shown.extend(byte);
        }
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// Reads to the end, and returns what was shown and the exit code.
    fn end(mut self) -> (String, Option<i32>) {
        let mut shown = Vec::new();
        // The end of a terminal is an error for its reader.
        drop(self.screen.read_to_end(&mut shown));
        let code = self.child.wait().unwrap().code();
        (String::from_utf8(shown).unwrap(), code)
    }
}

#[test]
fn progress_is_one_line_that_is_gone_at_the_end() {
    let world = World::new();
    let id = completed(&world);
    for (arguments, told) in [
        (&["store", "check"][..], "checking runs 1 of 1 (100 %)"),
        (&["store", "backup", "copy.db"], "copying pages "),
        (&["runs", "replay", "--all"], "replaying runs 1 of 1 (100 %)"),
        (&["runs", "export", &id, "-o", "bundle.json"], "writing the bundle"),
        (&["runs", "import", "bundle.json", "--mode", "overwrite"], "importing the run"),
    ] {
        let arguments = [arguments, &["--db", "runs.db"]].concat();
        let (shown, code) = OnTerminal::start(&world, &arguments).end();
        assert_eq!(code, Some(0), "{shown}");
        let (_, rest) = shown.split_once(&format!("\r{told}")).unwrap_or_else(|| panic!("{shown}"));
        assert!(rest.contains("\r\u{1b}[K"), "{shown:?}");
    }
    // Elsewhere there is none.
    let run = world.run(&["store", "check", "--db", "runs.db"]);
    assert_eq!(run.stderr(), "");
}

#[test]
fn run_that_goes_on_is_drawn_again() {
    let held = Held::new();
    let id = held.run_id();
    let arguments = ["runs", "show", &id, "--db", "runs.db", "--follow"];
    let mut follower = OnTerminal::start(&held.world, &arguments);
    let first = follower.shows("greeter.bye");
    assert!(first.contains("status    RUNNING") && first.contains("▶ s1"), "{first}");
    let (held, _world) = held.released();
    let (shown, code) = follower.end();
    assert_eq!((code, held.code()), (Some(1), 1), "{shown}");
    assert!(shown.contains("A\u{1b}[J") && shown.contains("status    FAILED"), "{shown}");
}
