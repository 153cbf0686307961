package memsvc

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	maxAttempts       = 5
	firstBackoff      = 50 * time.Millisecond
	backoffMultiplier = 3
	maxBackoff        = time.Second
)

// attempts counts the attempts of one call.
type attempts struct {
	client  *Client
	count   int
	backoff time.Duration
}

// failed returns nil after the delay before another attempt, or the decoded error if there is none.
//
// Calls are repeated while the service is unavailable, up to five times, and while it asks for a delay (RetryInfo) that
// ends before the deadline. A call that arrives while the service stops is cancelled, as is one that the caller cancels,
// which is not repeated. Reads can be repeated; writes carry a request id, so that they are applied once.
func (a *attempts) failed(ctx context.Context, err error) error {
	decoded := newError(err, a.client.address)
	a.count++
	a.backoff = min(max(firstBackoff, a.backoff*backoffMultiplier), maxBackoff)
	delay := max(decoded.RetryAfter, a.backoff)
	switch decoded.Code {
	case codes.Unavailable, codes.Canceled:
		if a.count >= maxAttempts || ctx.Err() != nil || a.client.isClosed() {
			return decoded
		}
	case codes.ResourceExhausted, codes.Aborted:
		if decoded.RetryAfter == 0 {
			return decoded
		}
	default:
		return decoded
	}
	if end, ok := ctx.Deadline(); ok && time.Now().Add(delay).After(end) {
		return decoded
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return decoded
	}
}

// call makes one call with a deadline, again where it is safe.
func call[Q, R any](
	ctx context.Context,
	c *Client,
	method func(context.Context, *Q, ...grpc.CallOption) (*R, error),
	request *Q,
	set []func(*Q),
) (*R, error) {
	for _, each := range set {
		each(request)
	}
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	attempts := attempts{client: c}
	for {
		response, err := method(ctx, request)
		if err == nil {
			return response, nil
		}
		if err := attempts.failed(ctx, err); err != nil {
			return nil, err
		}
	}
}

// open makes a call whose responses are a stream, and returns it with its first response. Until that has come, the call
// is repeated as others are, also if the service ends the stream without an error.
func open[Q, R any](
	ctx context.Context,
	c *Client,
	method func(context.Context, *Q, ...grpc.CallOption) (grpc.ServerStreamingClient[R], error),
	request *Q,
) (grpc.ServerStreamingClient[R], *R, error) {
	attempts := attempts{client: c}
	for {
		stream, err := method(ctx, request)
		if err == nil {
			var first *R
			if first, err = stream.Recv(); err == nil {
				return stream, first, nil
			}
			err = unexpectedEnd(err)
		}
		if err := attempts.failed(ctx, err); err != nil {
			return nil, nil, err
		}
	}
}

// unexpectedEnd returns err; in place of the end of a stream that should go on, an error with the code UNAVAILABLE.
func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return status.Error(codes.Unavailable, "the service ended the stream")
	}
	return err
}

func (c *Client) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.timeout)
}
