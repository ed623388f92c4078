//! Lists of layers, and the handles that take one out again.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{
            AtomicUsize,
            Ordering::{Acquire, Release},
        },
    },
};

use parking_lot::RwLock;

/// One registered layer.
pub(crate) struct Entry<L: ?Sized> {
    id: Arc<()>,
    pub(crate) name: Arc<str>,
    pub(crate) inherited: bool,
    pub(crate) layer: Arc<L>,
}

impl<L: ?Sized> Clone for Entry<L> {
    fn clone(&self) -> Self {
        Self {
            id: self.id.clone(),
            name: self.name.clone(),
            inherited: self.inherited,
            layer: self.layer.clone(),
        }
    }
}

/// A list of layers that is replaced as a whole: what runs keeps the list it started with.
pub(crate) struct Registry<L: ?Sized>(Arc<Shared<L>>);

struct Shared<L: ?Sized> {
    list: RwLock<Arc<[Entry<L>]>>,
    /// How long the list is, so that a call through an empty one need not take the lock.
    len: AtomicUsize,
}

impl<L: ?Sized> Clone for Registry<L> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<L: ?Sized> Default for Registry<L> {
    fn default() -> Self {
        Self(Arc::new(Shared { list: RwLock::new(Arc::new([])), len: AtomicUsize::new(0) }))
    }
}

impl<L: ?Sized + Send + Sync + 'static> Registry<L> {
    /// The list as it is now.
    pub(crate) fn list(&self) -> Arc<[Entry<L>]> {
        self.0.list.read().clone()
    }

    /// How many layers there are now.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len.load(Acquire)
    }

    pub(crate) fn push(&self, name: Arc<str>, inherited: bool, layer: Arc<L>) -> Registration {
        let id = Arc::new(());
        let entry = Entry { id: id.clone(), name, inherited, layer };
        self.change(|entries| entries.push(entry));
        let list = Arc::downgrade(&self.0);
        Registration::new(move || {
            if let Some(list) = list.upgrade() {
                Self(list).change(|entries| entries.retain(|e| !Arc::ptr_eq(&e.id, &id)));
            }
        })
    }

    /// Appends the inherited entries of another list.
    pub(crate) fn inherit(&self, from: &Self) {
        let inherited: Vec<_> = from.list().iter().filter(|e| e.inherited).cloned().collect();
        self.change(|entries| entries.extend(inherited));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Entry<L>>)) {
        let mut list = self.0.list.write();
        let mut entries = list.to_vec();
        change(&mut entries);
        self.0.len.store(entries.len(), Release);
        let old = std::mem::replace(&mut *list, entries.into());
        drop(list);
        // May be the last of a layer, and its destructor is user code: it runs after the lock is gone.
        drop(old);
    }
}

impl<L: ?Sized> fmt::Debug for Registry<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = self.0.list.read().clone();
        f.debug_list().entries(list.iter().map(|e| &e.name)).finish()
    }
}

/// Removes one registered layer. Dropping it leaves the layer registered.
#[must_use = "keep it to remove the layer later, or drop it on purpose with `.keep()`"]
pub struct Registration(Box<dyn FnOnce() + Send + Sync>);

impl Registration {
    pub(crate) fn new(remove: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Box::new(remove))
    }

    /// Removes the layer. Calls that run keep it to their end.
    pub fn remove(self) {
        (self.0)();
    }

    /// Leaves the layer registered for good.
    pub fn keep(self) {}

    /// Removes the layer when dropped.
    pub fn into_guard(self) -> RegistrationGuard {
        RegistrationGuard(Some(self))
    }

    /// Both at once.
    pub fn and(self, other: Self) -> Self {
        Self::new(move || {
            self.remove();
            other.remove();
        })
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").finish_non_exhaustive()
    }
}

/// Removes a layer when dropped, also on panic.
#[derive(Debug)]
#[must_use = "the layer is removed when this is dropped"]
pub struct RegistrationGuard(Option<Registration>);

impl Drop for RegistrationGuard {
    fn drop(&mut self) {
        if let Some(registration) = self.0.take() {
            registration.remove();
        }
    }
}
