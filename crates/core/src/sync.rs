//! A slot that is written once: the model checker puts its own in.

#[cfg(not(turnwright_model))]
pub(crate) use std::sync::OnceLock;

#[cfg(turnwright_model)]
pub(crate) use model::OnceLock;

#[cfg(turnwright_model)]
mod model {
    use std::sync::OnceLock as Slot;

    use shuttle::sync::Mutex;

    /// The same, with a point before each look at which another thread may come in between.
    pub(crate) struct OnceLock<T> {
        slot: Slot<T>,
        turn: Mutex<()>,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            Self { slot: Slot::new(), turn: Mutex::new(()) }
        }

        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            let _turn = self.turn.lock();
            self.slot.set(value)
        }

        pub(crate) fn get(&self) -> Option<&T> {
            let _turn = self.turn.lock();
            self.slot.get()
        }

        pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            let _turn = self.turn.lock();
            self.slot.get_or_init(make)
        }
    }
}
