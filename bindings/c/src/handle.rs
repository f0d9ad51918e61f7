//! The table of handles. A handle is a number in the form of a pointer that never leads to memory,
//! and no number is used twice, so a handle that was freed or is of another kind is always
//! recognized.

use std::{
    any::Any,
    collections::HashMap,
    ptr,
    sync::{
        Arc, LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use crate::error::{Failure, evb_code, evb_fault};

/// A thing that programs have handles to, and the name of its kind in errors.
pub(crate) trait Named: Any + Send + Sync {
    const NAME: &'static str;
}

/// A thing in the table, and the name of its kind.
type Entry = (&'static str, Arc<dyn Any + Send + Sync>);

static TABLE: LazyLock<RwLock<HashMap<usize, Entry>>> = LazyLock::new(RwLock::default);

/// The next handle. Handles are odd, unlike the address of any struct.
static NEXT: AtomicUsize = AtomicUsize::new(1);

fn read() -> RwLockReadGuard<'static, HashMap<usize, Entry>> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, HashMap<usize, Entry>> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Enters a thing into the table, and returns its handle.
pub(crate) fn insert<C, T: Named>(thing: T) -> *mut C {
    let number = NEXT.fetch_add(2, Relaxed);
    write().insert(number, (T::NAME, Arc::new(thing)));
    ptr::without_provenance_mut(number)
}

/// Returns the thing of a handle.
pub(crate) fn get<C, T: Named>(handle: *const C) -> Result<Arc<T>, Failure> {
    let number = handle.addr();
    let entry = read().get(&number).cloned();
    typed(number, entry)
}

/// Removes a handle, and returns its thing. The caller drops it, without the lock of the table,
/// because a callback that releases memory may call evb.
pub(crate) fn remove<C, T: Named>(handle: *const C) -> Result<Arc<T>, Failure> {
    let number = handle.addr();
    let mut table = write();
    // An entry of another kind stays.
    let entry = table.get(&number).cloned();
    let thing = typed(number, entry)?;
    let removed = table.remove(&number);
    drop(table);
    drop(removed);
    Ok(thing)
}

/// Frees a handle; NULL is none.
pub(crate) fn free<C, T: Named>(handle: *const C) -> Result<(), Failure> {
    if handle.is_null() {
        return Ok(());
    }
    remove::<C, T>(handle).map(drop)
}

/// Returns true if this can be the number of a handle, now or earlier.
pub(crate) fn is_handle(address: usize) -> bool {
    address % 2 == 1
}

fn typed<T: Named>(number: usize, entry: Option<Entry>) -> Result<Arc<T>, Failure> {
    let refuse =
        |reason, remedy| Err(Failure::new(evb_code::EVB_HANDLE, evb_fault::EVB_FAULT_CALLER, reason, remedy));
    let Some((kind, thing)) = entry else {
        if number == 0 {
            return Err(Failure::null(T::NAME));
        }
        let was_handle = is_handle(number) && number < NEXT.load(Relaxed);
        let what = if was_handle { "has been freed already" } else { "is not one that evb returned" };
        let remedy = "pass a handle that evb returned and that has not been freed";
        return refuse(format!("the handle for `{}` {what}", T::NAME), remedy);
    };
    let other = format!("the handle for `{}` is a handle to a {kind}", T::NAME);
    thing.downcast().or_else(|_| refuse(other, "pass a handle of the right kind"))
}

#[cfg(test)]
mod tests;
