//! Locks, in one place: the model checker puts its own in.

#[cfg(not(turnwright_model))]
pub(crate) use parking_lot::Mutex;

#[cfg(turnwright_model)]
pub(crate) use model::Mutex;

#[cfg(turnwright_model)]
mod model {
    use shuttle::sync::MutexGuard;

    /// The same face as the ordinary one.
    #[derive(Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}
