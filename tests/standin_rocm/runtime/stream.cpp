// Streams and events. Work is done when it is enqueued, so every stream is idle and every event has passed.
#include <time.h>

#include "state.h"

namespace {
struct Stream {
  int device;
};
struct Event {
  bool recorded = false;
  double at = 0;  // milliseconds
};

Registry<Stream> streams;
Registry<Event> events;

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}
}  // namespace

long count_streams() { return streams.count(); }
long count_events() { return events.count(); }

// The null stream, and the two names that stand for it and for a thread's own.
bool is_stream(void *stream) {
  return reinterpret_cast<size_t>(stream) <= 2 || streams.has(static_cast<Stream *>(stream));
}

STANDIN_API int hipStreamCreateWithFlags(Stream **stream, unsigned) {
  RETURN_IF_BROKEN();
  *stream = streams.add(new Stream{current_device()});
  return SUCCESS;
}

STANDIN_API int hipStreamCreate(Stream **stream) { return hipStreamCreateWithFlags(stream, 0); }

STANDIN_API int hipStreamCreateWithPriority(Stream **stream, unsigned flags, int) {
  return hipStreamCreateWithFlags(stream, flags);
}

STANDIN_API int hipStreamDestroy(Stream *stream) {
  if (!streams.remove(stream)) return noted(INVALID_HANDLE);
  delete stream;
  RETURN_IF_BROKEN();
  return SUCCESS;
}

STANDIN_API int hipStreamSynchronize(void *stream) {
  if (!is_stream(stream)) return noted(INVALID_HANDLE);
  RETURN_IF_BROKEN();
  return SUCCESS;
}

STANDIN_API int hipStreamQuery(void *stream) { return hipStreamSynchronize(stream); }

STANDIN_API int hipStreamGetDevice(void *stream, int *device) {
  if (!is_stream(stream)) return noted(INVALID_HANDLE);
  *device = reinterpret_cast<size_t>(stream) <= 2 ? current_device() : static_cast<Stream *>(stream)->device;
  return SUCCESS;
}

STANDIN_API int hipStreamWaitEvent(void *stream, Event *event, unsigned) {
  if (!is_stream(stream) || !events.has(event)) return noted(INVALID_HANDLE);
  RETURN_IF_BROKEN();
  return SUCCESS;
}

STANDIN_API int hipEventCreateWithFlags(Event **event, unsigned) {
  RETURN_IF_BROKEN();
  *event = events.add(new Event);
  return SUCCESS;
}

STANDIN_API int hipEventCreate(Event **event) { return hipEventCreateWithFlags(event, 0); }

STANDIN_API int hipEventDestroy(Event *event) {
  if (!events.remove(event)) return noted(INVALID_HANDLE);
  delete event;
  RETURN_IF_BROKEN();
  return SUCCESS;
}

STANDIN_API int hipEventRecord(Event *event, void *stream) {
  if (!events.has(event) || !is_stream(stream)) return noted(INVALID_HANDLE);
  RETURN_IF_BROKEN();
  event->recorded = true;
  event->at = now();
  return SUCCESS;
}

STANDIN_API int hipEventSynchronize(Event *event) {
  if (!events.has(event)) return noted(INVALID_HANDLE);
  RETURN_IF_BROKEN();
  return SUCCESS;
}

STANDIN_API int hipEventQuery(Event *event) { return hipEventSynchronize(event); }

STANDIN_API int hipEventElapsedTime(float *milliseconds, Event *start, Event *stop) {
  if (!events.has(start) || !events.has(stop)) return noted(INVALID_HANDLE);
  RETURN_IF_BROKEN();
  if (!start->recorded || !stop->recorded) return noted(INVALID_HANDLE);
  *milliseconds = static_cast<float>(stop->at - start->at);
  return SUCCESS;
}
