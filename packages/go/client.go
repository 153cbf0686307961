// Package memsvc is a client of memsvc, a service that gives AI agents a long-term memory.
//
// [Connect] returns a [Client] for one user and, optionally, a project, an agent and a session. Its methods take what a
// call is about, and functions that set further fields of the request:
//
//	found, err := memory.Search(ctx, "When do we leave?", func(r *memsvc.SearchRequest) { r.Limit = 3 })
//
// Every write carries a request id, so that a repeated call is applied once. Failed calls return an [*Error].
package memsvc

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	memsvcv1 "github.com/memsvc/memsvc/packages/go/memsvc/v1"
)

const (
	// DefaultAddress is the address at which a service listens by default.
	DefaultAddress = "127.0.0.1:50051"
	// DefaultTimeout is the deadline of calls whose context has none.
	DefaultTimeout = 30 * time.Second

	maxMessageBytes = 16 << 20
	keyVariable     = "MEMSVC_API_KEY"
)

// Options are the scope of a client's calls, and how it connects. UserID is required.
type Options struct {
	UserID    string
	ProjectID string
	AgentID   string
	SessionID string

	// APIKey is sent with every call; empty: that of the variable MEMSVC_API_KEY, if there is one.
	APIKey string
	// Timeout is the deadline of calls whose context has none, all attempts included; 0: DefaultTimeout.
	Timeout time.Duration
	// TLS encrypts the connection; nil: no encryption.
	TLS *TLS
	// DialOptions are added to those of the client.
	DialOptions []grpc.DialOption
}

// TLS names files, each PEM.
type TLS struct {
	// CA is the authority of the service's certificate; empty: those that the system trusts.
	CA string
	// Certificate and Key identify the client, for mTLS.
	Certificate, Key string
}

// Client is a connection to a memory service, for one user and project. It may be used by several goroutines.
type Client struct {
	// The generated clients of all services. Their calls are not repeated and return plain gRPC errors, which FromError
	// decodes.
	Memories  memsvcv1.MemoryServiceClient
	Searches  memsvcv1.SearchServiceClient
	Sessions  memsvcv1.SessionServiceClient
	Files     memsvcv1.FileServiceClient
	Lifecycle memsvcv1.LifecycleServiceClient
	Admin     memsvcv1.AdminServiceClient

	scope      *Scope
	address    string
	timeout    time.Duration
	connection *grpc.ClientConn
}

// Connect returns a client of the service at address, "HOST:PORT" or "unix:PATH"; it connects with the first call.
func Connect(address string, options Options) (*Client, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	transport, err := options.TLS.credentials()
	if err != nil {
		return nil, err
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithNoProxy(),
		grpc.WithUserAgent("memsvc-go/" + Version),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 2 * time.Minute, Timeout: 20 * time.Second}),
		// After a long outage gRPC would reconnect only every two minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Second, Multiplier: 1, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 20 * time.Second,
		}),
	}
	key := options.APIKey
	if key == "" {
		key = os.Getenv(keyVariable)
	}
	if key = strings.TrimSpace(key); key != "" {
		dial = append(dial, grpc.WithPerRPCCredentials(bearer(key)))
	}
	connection, err := grpc.NewClient(address, append(dial, options.DialOptions...)...)
	if err != nil {
		return nil, err
	}
	client := &Client{
		Memories:  memsvcv1.NewMemoryServiceClient(connection),
		Searches:  memsvcv1.NewSearchServiceClient(connection),
		Sessions:  memsvcv1.NewSessionServiceClient(connection),
		Files:     memsvcv1.NewFileServiceClient(connection),
		Lifecycle: memsvcv1.NewLifecycleServiceClient(connection),
		Admin:     memsvcv1.NewAdminServiceClient(connection),
		scope: &Scope{
			UserId: options.UserID, ProjectId: options.ProjectID, AgentId: options.AgentID, SessionId: options.SessionID,
		},
		address:    address,
		timeout:    options.Timeout,
		connection: connection,
	}
	if client.timeout == 0 {
		client.timeout = DefaultTimeout
	}
	return client, nil
}

// Close ends the connection. Calls and watches under way, and later ones, fail with the code Canceled.
func (c *Client) Close() error {
	return c.connection.Close()
}

func (c *Client) isClosed() bool {
	return c.connection.GetState() == connectivity.Shutdown
}

// Scope returns a copy of the scope of the client's calls.
func (c *Client) Scope() *Scope {
	return proto.CloneOf(c.scope)
}

// Scoped returns a client of the same connection with a changed scope, such as another project.
func (c *Client) Scoped(set func(*Scope)) *Client {
	scoped := *c
	scoped.scope = c.Scope()
	set(scoped.scope)
	return &scoped
}

// Create stores one memory; under an existing key, it updates that one.
func (c *Client) Create(
	ctx context.Context, memory *Memory, set ...func(*CreateMemoryRequest),
) (*CreateMemoryResponse, error) {
	request := &CreateMemoryRequest{Scope: c.scope, Memory: memory, RequestId: newID()}
	return call(ctx, c, c.Memories.CreateMemory, request, set)
}

// Get returns the memory with an id. GetByKey is the same by key.
func (c *Client) Get(ctx context.Context, id string, set ...func(*GetMemoryRequest)) (*Memory, error) {
	return c.get(ctx, &GetMemoryRequest{Scope: c.scope, By: &memsvcv1.GetMemoryRequest_Id{Id: id}}, set)
}

// GetByKey returns the memory with a key in the client's project.
func (c *Client) GetByKey(ctx context.Context, key string, set ...func(*GetMemoryRequest)) (*Memory, error) {
	return c.get(ctx, &GetMemoryRequest{Scope: c.scope, By: &memsvcv1.GetMemoryRequest_Key{Key: key}}, set)
}

func (c *Client) get(ctx context.Context, request *GetMemoryRequest, set []func(*GetMemoryRequest)) (*Memory, error) {
	response, err := call(ctx, c, c.Memories.GetMemory, request, set)
	return response.GetMemory(), err
}

// Update changes the fields that paths name, such as "content", of the memory with the id, or else the key, of memory.
func (c *Client) Update(
	ctx context.Context, memory *Memory, paths []string, set ...func(*UpdateMemoryRequest),
) (*UpdateMemoryResponse, error) {
	request := &UpdateMemoryRequest{
		Scope: c.scope, Memory: memory, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}, RequestId: newID(),
	}
	return call(ctx, c, c.Memories.UpdateMemory, request, set)
}

// Delete deletes the memory with an id so that it can be restored. DeleteByKey is the same by key.
func (c *Client) Delete(
	ctx context.Context, id string, set ...func(*DeleteMemoryRequest),
) (*DeleteMemoryResponse, error) {
	request := &DeleteMemoryRequest{Scope: c.scope, RequestId: newID(), By: &memsvcv1.DeleteMemoryRequest_Id{Id: id}}
	return call(ctx, c, c.Memories.DeleteMemory, request, set)
}

// DeleteByKey deletes the memory with a key in the client's project.
func (c *Client) DeleteByKey(
	ctx context.Context, key string, set ...func(*DeleteMemoryRequest),
) (*DeleteMemoryResponse, error) {
	request := &DeleteMemoryRequest{Scope: c.scope, RequestId: newID(), By: &memsvcv1.DeleteMemoryRequest_Key{Key: key}}
	return call(ctx, c, c.Memories.DeleteMemory, request, set)
}

// Search returns the memories that fit a query, best first.
func (c *Client) Search(ctx context.Context, query string, set ...func(*SearchRequest)) (*SearchResponse, error) {
	return call(ctx, c, c.Searches.Search, &SearchRequest{Scope: c.scope, Query: query}, set)
}

// Capture captures memories from a text that was said; the response has a decision for each of its statements.
func (c *Client) Capture(
	ctx context.Context, text string, set ...func(*CaptureMemoryRequest),
) (*CaptureMemoryResponse, error) {
	request := &CaptureMemoryRequest{Scope: c.scope, Message: &ChatMessage{Content: text}, RequestId: newID()}
	return call(ctx, c, c.Memories.CaptureMemory, request, set)
}

// newID returns a random request id.
func newID() string {
	return rand.Text()
}

func checkAddress(address string) error {
	if strings.HasPrefix(address, "unix:") || strings.HasPrefix(address, "unix-abstract:") {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	number, _ := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || number == 0 || strings.ContainsAny(host, " /") {
		return fmt.Errorf("the address %q is neither HOST:PORT nor unix:PATH", address)
	}
	return nil
}

func (t *TLS) credentials() (credentials.TransportCredentials, error) {
	if t == nil {
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the file %s holds no certificate", t.CA)
		}
	}
	if (t.Certificate == "") != (t.Key == "") {
		return nil, errors.New("a certificate of the client needs a key, and a key a certificate")
	}
	if t.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

// bearer is an API key that is sent with every call.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (key bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(key)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. On loopback a key needs no TLS.
func (key bearer) RequireTransportSecurity() bool {
	return false
}
