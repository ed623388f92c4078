//! What was promised, and whether it held.

/// The promises of a run so far.
#[derive(Default)]
pub(crate) struct Promises {
    kept: usize,
    broken: Vec<String>,
}

impl Promises {
    /// A promise and whether it held; `seen` says what there was instead.
    pub(crate) fn hold(&mut self, promise: &str, held: bool, seen: impl FnOnce() -> String) {
        self.check(promise, if held { Ok(()) } else { Err(seen()) });
    }

    /// The same with a checker's verdict.
    pub(crate) fn check(&mut self, promise: &str, verdict: Result<(), String>) {
        match verdict {
            Ok(()) => self.kept += 1,
            Err(seen) => {
                eprintln!("broken promise: {promise}\n  seen: {seen}");
                if !self.broken.iter().any(|known| known == promise) {
                    self.broken.push(promise.to_owned());
                }
            }
        }
    }

    /// How often a promise held.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    /// Those that did not hold at some time, each once.
    pub(crate) fn broken(&self) -> &[String] {
        &self.broken
    }

    /// The end of the run.
    pub(crate) fn conclude(&self) -> Result<(), String> {
        match &self.broken[..] {
            [] => {
                println!("\n{} checks of promises, all held", self.kept);
                Ok(())
            }
            broken => Err(format!("promises broken: {}", broken.join("; "))),
        }
    }
}
