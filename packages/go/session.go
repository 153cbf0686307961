package memsvc

import (
	"context"

	"google.golang.org/protobuf/proto"

	memsvcv1 "github.com/memsvc/memsvc/packages/go/memsvc/v1"
)

// Session is a conversation: ordered messages, private to it.
type Session struct {
	// Client makes calls that belong to the session: its contexts contain the messages.
	Client *Client
}

// Session returns the session with an id. With an empty id it is that of the client's scope, or else Open has the
// service make one.
func (c *Client) Session(id string) *Session {
	if id == "" {
		return &Session{c}
	}
	return &Session{c.Scoped(func(scope *Scope) { scope.SessionId = id })}
}

// ID returns the id of the session.
func (s *Session) ID() string {
	return s.Client.scope.GetSessionId()
}

// Open creates the session; one that exists is an error with the code AlreadyExists.
func (s *Session) Open(ctx context.Context, set ...func(*CreateSessionRequest)) error {
	request := &CreateSessionRequest{Scope: s.Client.scope, RequestId: newID()}
	response, err := call(ctx, s.Client, s.Client.Sessions.CreateSession, request, set)
	if err != nil {
		return err
	}
	s.Client = s.Client.Scoped(func(scope *Scope) { scope.SessionId = response.GetSession().GetScope().GetSessionId() })
	return nil
}

// Append appends 1 to 100 messages, all or none, in order; they are durable when it returns. Messages without a role are
// those of the user.
func (s *Session) Append(
	ctx context.Context, messages []*ChatMessage, set ...func(*AppendMessagesRequest),
) (*AppendMessagesResponse, error) {
	request := &AppendMessagesRequest{Scope: s.Client.scope, RequestId: newID()}
	for _, message := range messages {
		if message.GetRole() == memsvcv1.MessageRole_MESSAGE_ROLE_UNSPECIFIED {
			message = proto.CloneOf(message)
			message.Role = memsvcv1.MessageRole_MESSAGE_ROLE_USER
		}
		request.Messages = append(request.Messages, message)
	}
	return call(ctx, s.Client, s.Client.Sessions.AppendMessages, request, set)
}

// Close ends the session, which stays readable. Flush.Results of the response lists the memories extracted from it.
func (s *Session) Close(ctx context.Context, set ...func(*CloseSessionRequest)) (*CloseSessionResponse, error) {
	request := &CloseSessionRequest{Scope: s.Client.scope, RequestId: newID()}
	return call(ctx, s.Client, s.Client.Sessions.CloseSession, request, set)
}
