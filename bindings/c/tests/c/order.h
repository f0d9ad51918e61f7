/* Tells Helgrind of orders that it cannot see, because atomic operations make them (Valgrind manual,
 * "Helgrind: a thread error detector", "Hints and Tips for Effective Use"). */
#ifndef ORDER_H
#define ORDER_H

#ifdef HELGRIND
#include <valgrind/helgrind.h>
/* What this thread did so far happens before what another does after `order_after`. */
#define order_before(object) ANNOTATE_HAPPENS_BEFORE(object)
#define order_after(object) ANNOTATE_HAPPENS_AFTER(object)
/* Another thread has handed this memory over. */
#define order_handed(data, size) VALGRIND_HG_CLEAN_MEMORY(data, size)
/* The object is atomic. */
#define order_atomic(object) VALGRIND_HG_DISABLE_CHECKING(object, sizeof *(object))
#else
#define order_before(object) ((void)(object))
#define order_after(object) ((void)(object))
#define order_handed(data, size) ((void)(data), (void)(size))
#define order_atomic(object) ((void)(object))
#endif

#endif
