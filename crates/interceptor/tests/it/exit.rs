//! What an error that leaves a layer by `?` becomes.

use std::{error::Error, fmt, io, sync::Arc};

use turnwright_control::ControlError;
use turnwright_core::{ErrorInfo, ErrorKind};
use turnwright_interceptor::Exit;

/// An error with words and a cause.
#[derive(Debug)]
struct Outer(&'static str, Option<Box<dyn Error + Send + Sync>>);
impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
impl Error for Outer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_deref().map(|e| e as _)
    }
}

fn outer(words: &'static str, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Outer {
    Outer(words, Some(cause.into()))
}

fn message(e: impl Error + Send + Sync + 'static) -> String {
    match Exit::from(e) {
        Exit::Failed(info) => {
            assert_eq!(info.kind, ErrorKind::Interceptor);
            info.message
        }
        control => panic!("{control}"),
    }
}

/// Invariant 4.
#[test]
fn a_control_error_anywhere_among_the_causes_stays_a_control_error() {
    let control = || ControlError::policy_violation("no shell").user_content("I may not.");
    for exit in [
        Exit::from(control()),
        Exit::from(Box::new(control())),
        Exit::from(Arc::new(control())),
        Exit::from(outer("a", control())),
        Exit::from(outer("a", outer("b", outer("c", control())))),
        Exit::from(outer("a", Box::new(control()) as Box<dyn Error + Send + Sync>)),
        Exit::from(io::Error::other(control())),
        Exit::from(outer("a", io::Error::other(outer("b", control())))),
    ] {
        assert_eq!(exit, Exit::Control(control()));
    }
}

#[test]
fn other_errors_keep_their_causes_in_the_message_each_once() {
    assert_eq!(message(outer("outer", outer("middle", "cause"))), "outer: middle: cause");
    assert_eq!(message(outer("outer: cause", "cause")), "outer: cause", "it prints its cause itself");
    assert_eq!(message(outer("outer", outer("middle: cause", "cause"))), "outer: middle: cause");
    assert_eq!(message(io::Error::other(outer("outer", "cause"))), "outer: cause");
    assert_eq!(message(outer("outer", "")), "outer");
    assert_eq!(message(Outer("alone", None)), "alone");
}

#[test]
fn error_data_stays_what_it_is() {
    let info = ErrorInfo::new(ErrorKind::Server, "down").provider("p");
    assert_eq!(Exit::from(info.clone()), Exit::Failed(info.clone()));
    assert_eq!(message(outer("outer", info)), "outer: p: down");
}

#[test]
fn an_error_that_is_its_own_cause_does_not_hang_the_turn() {
    #[derive(Debug)]
    struct Own;
    impl fmt::Display for Own {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("own")
        }
    }
    impl Error for Own {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(self)
        }
    }
    assert_eq!(message(Own), "own");
}
