package memsvc

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
)

// Context is the context of a query: a stream of events whose texts make up the context.
type Context struct {
	ctx     context.Context
	client  *Client
	request *BuildContextRequest
}

// Context builds the context for a query: its method Text returns it as one text, Events yields its events as they come.
// Each of them makes one call.
func (c *Client) Context(ctx context.Context, query string, set ...func(*BuildContextRequest)) *Context {
	request := &BuildContextRequest{Scope: c.scope, Query: query, Options: &ContextOptions{}}
	for _, each := range set {
		each(request)
	}
	return &Context{ctx, c, request}
}

// Events yields the events of the context: one plan, items and warnings, one summary. An error is the last value.
func (s *Context) Events() iter.Seq2[*BuildContextResponse, error] {
	return func(yield func(*BuildContextResponse, error) bool) {
		ctx, cancel := s.client.withDeadline(s.ctx)
		defer cancel()
		stream, response, err := open(ctx, s.client, s.client.Searches.BuildContext, s.request)
		for ; err == nil; response, err = stream.Recv() {
			if !yield(response, nil) {
				return
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		var decoded *Error
		if !errors.As(err, &decoded) {
			decoded = newError(err, s.client.address)
		}
		yield(nil, decoded)
	}
}

// Text returns the whole context as one text, ready for a prompt: the texts of all events, as RenderContext joins them.
// The first lines mark the rest as data, not instructions, and say what day it is.
func (s *Context) Text() (string, error) {
	var text strings.Builder
	for event, err := range s.Events() {
		if err != nil {
			return "", err
		}
		text.WriteString(event.GetPlan().GetText())
		for _, item := range event.GetItems().GetItems() {
			text.WriteString(item.GetText())
		}
		text.WriteString(event.GetSummary().GetText())
	}
	return text.String(), nil
}
