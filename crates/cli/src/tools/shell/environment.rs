//! What a command may know of our environment: nothing that could be a secret.

use std::{env, ffi::OsString};

/// Passed on where they are set, and so is every `LC_*`.
const PASSED: [&str; 8] = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR"];

/// The variables of a command. `TERM` says that nobody sees colours.
pub(super) fn passed() -> Vec<(OsString, OsString)> {
    of(env::vars_os())
}

fn of(ours: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let is_passed =
        |name: &OsString| name.to_str().is_some_and(|name| PASSED.contains(&name) || name.starts_with("LC_"));
    let mut passed: Vec<_> = ours.filter(|(name, _)| is_passed(name)).collect();
    passed.push(("TERM".into(), "dumb".into()));
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_on_the_list_is_not_passed_on() {
        let ours = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("OPENAI_API_KEY", "sk-1"),
            ("ANTHROPIC_API_KEY", "sk-2"),
            ("GITHUB_TOKEN", "t"),
            ("TURNWRIGHT_MODEL", "m"),
            ("SSH_AUTH_SOCK", "/s"),
            ("PATH_KEY", "k"),
            ("path", "k"),
            ("BASH_ENV", "/run-me"),
            ("LD_PRELOAD", "/load-me"),
            ("TERM", "xterm"),
        ];
        let passed = of(ours.into_iter().map(|(name, value)| (name.into(), value.into())));
        let wanted = [("PATH", "/bin"), ("LC_ALL", "C"), ("TERM", "dumb")];
        assert_eq!(passed, wanted.map(|(name, value)| (name.into(), value.into())));
    }
}
