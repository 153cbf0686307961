package memsvc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	memsvcv1 "github.com/memsvc/memsvc/packages/go/memsvc/v1"
)

const (
	heartbeatInterval = 15 * time.Second
	silentHeartbeats  = 3 // after so many missing heartbeats the connection counts as broken
	firstPause        = 100 * time.Millisecond
	longestPause      = 5 * time.Second
	watchPatience     = time.Minute // the longest time for which the service may be unreachable
)

// WatchEvent is a committed change, and the cursor from which another watch continues after it.
type WatchEvent struct {
	Change *MemoryChange
	Cursor string
}

// Watch is a watch that has begun.
type Watch struct {
	events chan WatchEvent
	stop   context.CancelFunc
	err    error
}

// Watch watches the memories of the scope. It returns when the watch has begun: from then on every committed change is
// delivered once, in commit order. The watch ends with ctx or Close; it reconnects by itself, and fails if the service
// cannot be reached for a minute.
func (c *Client) Watch(ctx context.Context, set ...func(*WatchMemoriesRequest)) (*Watch, error) {
	request := &WatchMemoriesRequest{Scope: c.scope, HeartbeatInterval: durationpb.New(heartbeatInterval)}
	for _, each := range set {
		each(request)
	}
	request = proto.CloneOf(request) // its cursor changes
	ctx, stop := context.WithCancel(ctx)
	call, cancel := context.WithCancel(ctx)
	silence := maxSilence(request)
	timer := time.AfterFunc(silence, cancel)
	stream, first, err := open(call, c, c.Memories.WatchMemories, request)
	if !timer.Stop() && err != nil && ctx.Err() == nil {
		err = newError(errSilent(silence), c.address)
	}
	if err != nil {
		cancel()
		stop()
		return nil, err
	}
	watch := &Watch{events: make(chan WatchEvent), stop: stop}
	go watch.run(ctx, c, request, &watchCall{stream, cancel}, first)
	return watch, nil
}

// Events returns the channel of the changes, which is closed when the watch ends.
func (w *Watch) Events() <-chan WatchEvent {
	return w.events
}

// Err returns why the watch ended by itself, after the channel is closed; nil after Close.
func (w *Watch) Err() error {
	return w.err
}

// Close ends the watch.
func (w *Watch) Close() {
	w.stop()
}

type watchCall struct {
	stream grpc.ServerStreamingClient[memsvcv1.WatchMemoriesResponse]
	cancel context.CancelFunc
}

func (w *Watch) run(
	ctx context.Context, c *Client, request *WatchMemoriesRequest, call *watchCall, response *memsvcv1.WatchMemoriesResponse,
) {
	defer close(w.events)
	defer w.stop()
	heard, pause := time.Now(), firstPause
	for {
		var err error
		for ; err == nil; response, err = call.receive(maxSilence(request)) {
			if response == nil {
				continue
			}
			pause = firstPause
			request.Cursor = response.GetCursor()
			if change := response.GetChange(); change != nil {
				select {
				case w.events <- WatchEvent{change, response.GetCursor()}:
				case <-ctx.Done():
				}
			}
			heard = time.Now() // the time that the program takes for an event does not count
		}
		call.cancel()
		if ctx.Err() != nil {
			return
		}
		decoded := newError(err, c.address)
		if !mayPass(decoded) || c.isClosed() || time.Since(heard) > watchPatience {
			w.err = decoded
			return
		}
		pause = max(pause, decoded.RetryAfter)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, longestPause)
		callCtx, cancel := context.WithCancel(ctx)
		stream, err := c.Memories.WatchMemories(callCtx, request)
		if err != nil {
			stream = failedStream{err: err}
		}
		call, response = &watchCall{stream, cancel}, nil
	}
}

// receive returns the next response; it fails if the service ends the stream, or if no response comes for too long.
func (call *watchCall) receive(silence time.Duration) (*memsvcv1.WatchMemoriesResponse, error) {
	timer := time.AfterFunc(silence, call.cancel)
	response, err := call.stream.Recv()
	if !timer.Stop() && err != nil {
		err = errSilent(silence)
	}
	return response, unexpectedEnd(err)
}

// maxSilence returns the time without a response after which the connection of a watch counts as broken.
func maxSilence(request *WatchMemoriesRequest) time.Duration {
	if interval := request.GetHeartbeatInterval(); interval != nil {
		return silentHeartbeats * interval.AsDuration()
	}
	return silentHeartbeats * heartbeatInterval
}

func errSilent(silence time.Duration) error {
	return status.Error(codes.Unavailable, fmt.Sprintf("nothing came for %s", silence))
}

// mayPass returns whether a watch can go on after an error: the service cannot be reached, stops, or asks for a delay.
func mayPass(err *Error) bool {
	isRefused := err.Code == codes.ResourceExhausted && err.RetryAfter > 0
	return isRefused || err.Code == codes.Unavailable || err.Code == codes.Canceled
}

// failedStream is a stream whose call could not be made.
type failedStream struct {
	grpc.ServerStreamingClient[memsvcv1.WatchMemoriesResponse]
	err error
}

// Recv implements grpc.ServerStreamingClient.
func (f failedStream) Recv() (*memsvcv1.WatchMemoriesResponse, error) {
	return nil, f.err
}
