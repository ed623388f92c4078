//! The program itself, the terminal, and the tool root.

use std::{
    env, fs,
    io::{self, IsTerminal},
    path::Path,
};

use super::check::{Report, Status};
use crate::{
    agent,
    args::{AgentArgs, ColorWhen},
    output::{Look, To, is_colour_refused, is_dumb},
};

/// Version, target, and what a panic does.
pub(super) fn program(report: &mut Report) {
    let (arch, os) = (env::consts::ARCH, env::consts::OS);
    report.add("turnwright", Status::Ok, format!("{} for {arch} {os}", env!("CARGO_PKG_VERSION")));
    if cfg!(panic = "unwind") {
        report.add("panics", Status::Ok, "a panic of a tool is caught and ends its call only");
    } else {
        let detail = "built with panic = \"abort\": a panic of a tool ends the program";
        report.add("panics", Status::Problem, detail).hint("build with panic = \"unwind\" in the profile");
    }
}

/// What is a terminal, colour, and width.
pub(super) fn terminal(color: ColorWhen, report: &mut Report) {
    let (stdin, stdout) = (io::stdin().is_terminal(), io::stdout().is_terminal());
    let all = [
        ("standard input", stdin),
        ("standard output", stdout),
        ("standard error", io::stderr().is_terminal()),
    ];
    for (name, is_terminal) in all {
        match is_terminal {
            true => report.add(name, Status::Ok, "a terminal"),
            false => report.add(name, Status::Missing, "not a terminal"),
        };
    }
    if cfg!(unix) && stdin && stdout && !is_dumb() {
        report.add("line editor", Status::Ok, "`chat` has one here");
    } else {
        let check = report.add("line editor", Status::Missing, "`chat` reads plain lines here");
        check.hint("it needs standard input and output to be terminals, and TERM not to be dumb");
    }
    report.add("colour", Status::Ok, colour(color));
    if let Some(width) = width() {
        report.add("width", Status::Ok, format!("{width} columns"));
    }
}

fn colour(when: ColorWhen) -> String {
    let look = Look::of(To::Stdout, when);
    let why = match when {
        ColorWhen::Always | ColorWhen::Never => "--color says so",
        ColorWhen::Auto if !look.terminal => "standard output is not a terminal",
        ColorWhen::Auto if look.dumb => "TERM is dumb",
        ColorWhen::Auto if is_colour_refused() => "NO_COLOR is set",
        ColorWhen::Auto => "standard output is a terminal",
    };
    format!("{}: {why}", if look.color { "on" } else { "off" })
}

#[cfg(unix)]
fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

#[cfg(not(unix))]
fn width() -> Option<u16> {
    None
}

/// Whether the tools have something to work on.
pub(super) fn tool_root(args: &AgentArgs, report: &mut Report) {
    let root = args.tool_root.display();
    let readable = agent::workspace(args).map_err(|refusal| refusal.message);
    let readable = readable.and_then(|_| {
        fs::read_dir(&args.tool_root).map_err(|e| format!("the tool root {root} cannot be read: {e}"))
    });
    match readable {
        Err(why) => {
            let hint = "point --tool-root at a directory that exists and may be read";
            report.add("tool root", Status::Problem, why).hint(hint);
        }
        Ok(_) if is_writable(&args.tool_root) => {
            report.add("tool root", Status::Ok, format!("{root} can be read and written"));
        }
        Ok(_) => {
            let check = report.add("tool root", Status::Missing, format!("{root} can be read, not written"));
            check.hint("write_file and edit_file will fail there");
        }
    }
}

#[cfg(unix)]
pub(super) fn is_writable(root: &Path) -> bool {
    rustix::fs::access(root, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
pub(super) fn is_writable(root: &Path) -> bool {
    fs::metadata(root).is_ok_and(|found| !found.permissions().readonly())
}
