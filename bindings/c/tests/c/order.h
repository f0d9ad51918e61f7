/* Tells Helgrind that what a thread did before it handed memory to evb happened before another thread
 * got the memory from evb. evb passes memory between threads by atomic operations, which Helgrind
 * does not follow (Valgrind manual, "Helgrind: a thread error detector", "Hints and Tips"). */
#ifndef ORDER_H
#define ORDER_H

#ifdef HELGRIND
#include <valgrind/helgrind.h>
#define order_before(object) ANNOTATE_HAPPENS_BEFORE(object)
#define order_after(object) ANNOTATE_HAPPENS_AFTER(object)
#else
#define order_before(object) ((void)(object))
#define order_after(object) ((void)(object))
#endif

#endif
