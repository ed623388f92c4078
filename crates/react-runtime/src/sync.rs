//! Locks, atomics and wakers, in one place: the model checker puts its own in.

#[cfg(not(turnwright_model))]
pub(crate) use {futures::task::AtomicWaker, parking_lot::Mutex, std::sync::atomic::AtomicU8};

#[cfg(turnwright_model)]
pub(crate) use {
    model::{AtomicWaker, Mutex},
    shuttle::sync::atomic::AtomicU8,
};

#[cfg(turnwright_model)]
mod model {
    use std::{sync::PoisonError, task::Waker};

    use shuttle::sync::MutexGuard;

    /// The same face as the ordinary one.
    #[derive(Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// The simplest thing that keeps the promise of the ordinary one.
    #[derive(Default)]
    pub(crate) struct AtomicWaker(Mutex<Option<Waker>>);

    impl AtomicWaker {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn register(&self, waker: &Waker) {
            *self.0.lock() = Some(waker.clone());
        }

        pub(crate) fn wake(&self) {
            let waker = self.0.lock().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}
