package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	memsvcv1 "memsvc-agent/internal/gen/memsvc/v1"
)

// watch hears of every change of the agent's memories, in the background.
type watch struct {
	stop        context.CancelFunc
	responses   chan *memsvcv1.WatchMemoriesResponse
	failed      chan error
	firstCursor string // the cursor of the first change that was reported
}

// startWatch returns when the watch has begun: from then on no change is missed.
func (a *agent) startWatch(ctx context.Context) (*watch, error) {
	ctx, stop := context.WithCancel(ctx)
	stream, err := a.openWatch(ctx, "")
	if err != nil {
		stop()
		return nil, err
	}
	w := &watch{stop: stop, responses: make(chan *memsvcv1.WatchMemoriesResponse, 64), failed: make(chan error, 1)}
	go func() {
		for {
			response, err := stream.Recv()
			if err != nil {
				w.failed <- err
				return
			}
			select {
			case w.responses <- response:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w, nil
}

// openWatch returns a stream of what changes from now on, or after a cursor. Its first response, a heartbeat, has come.
func (a *agent) openWatch(
	ctx context.Context, cursor string,
) (memsvcv1.MemoryService_WatchMemoriesClient, error) {
	request := &memsvcv1.WatchMemoriesRequest{
		Scope:             a.scope,
		Cursor:            cursor,
		HeartbeatInterval: durationpb.New(15 * time.Second),
	}
	return patiently(ctx, func() (memsvcv1.MemoryService_WatchMemoriesClient, error) {
		stream, err := a.memories.WatchMemories(ctx, request)
		if err == nil {
			_, err = stream.Recv()
		}
		return stream, err
	})
}

// report writes the changes as they were seen, once all that are expected have come, and returns how many.
func (w *watch) report(expected int) (int, error) {
	fmt.Println("Meanwhile the watch saw:")
	patience := time.After(callTimeout)
	for seen := 0; seen < expected; {
		select {
		case response := <-w.responses:
			if response.GetChange() == nil {
				continue // a heartbeat
			}
			if seen == 0 {
				w.firstCursor = response.GetCursor()
			}
			fmt.Println(" ", line(response.GetChange()))
			seen++
		case err := <-w.failed:
			return seen, err
		case <-patience:
			return seen, fmt.Errorf("the watch saw %d of %d changes", seen, expected)
		}
	}
	return expected, nil
}

// resumeWatch goes on after a cursor, as after a broken connection, and writes the next change.
func (a *agent) resumeWatch(ctx context.Context, cursor string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stream, err := a.openWatch(ctx, cursor)
	for err == nil {
		var response *memsvcv1.WatchMemoriesResponse
		if response, err = stream.Recv(); response.GetChange() != nil {
			fmt.Println("Resumed after the first of them:", line(response.GetChange()))
			return nil
		}
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the watch ended by itself")
	}
	return err
}

func line(change *memsvcv1.MemoryChange) string {
	action := strings.TrimPrefix(change.GetAction().String(), "MEMORY_CHANGE_ACTION_")
	return fmt.Sprintf("%s revision %d: %s", action, change.GetRevision(), change.GetMemory().GetContent())
}
