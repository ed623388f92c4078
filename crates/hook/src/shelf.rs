//! A list that is replaced as a whole: what runs keeps the list it began with.

use std::sync::{
    Arc,
    atomic::{
        AtomicUsize,
        Ordering::{Acquire, Release},
    },
};

use parking_lot::RwLock;

/// What is on it is known by its address, so that one thing can be taken off again, and no other of its kind.
pub(crate) struct Shelf<T: ?Sized> {
    list: RwLock<Arc<[Arc<T>]>>,
    /// How long the list is, so that whoever finds it empty need not take the lock.
    len: AtomicUsize,
}

impl<T: ?Sized> Default for Shelf<T> {
    fn default() -> Self {
        Self { list: RwLock::new(Arc::new([])), len: AtomicUsize::new(0) }
    }
}

impl<T: ?Sized> Shelf<T> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Acquire) == 0
    }

    pub(crate) fn list(&self) -> Arc<[Arc<T>]> {
        self.list.read().clone()
    }

    pub(crate) fn push(&self, item: Arc<T>) {
        self.change(|items| items.push(item));
    }

    /// Adds what is not there yet.
    pub(crate) fn extend(&self, more: &[Arc<T>]) {
        self.change(|items| {
            for item in more {
                if !items.iter().any(|there| Arc::ptr_eq(there, item)) {
                    items.push(item.clone());
                }
            }
        });
    }

    pub(crate) fn take_off(&self, item: &Arc<T>) {
        self.change(|items| items.retain(|there| !Arc::ptr_eq(there, item)));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<T>>)) {
        let mut list = self.list.write();
        let mut items = list.to_vec();
        change(&mut items);
        self.len.store(items.len(), Release);
        let old = std::mem::replace(&mut *list, items.into());
        drop(list);
        // May be the last of something, and its destructor is user code: it runs after the lock is gone.
        drop(old);
    }
}
