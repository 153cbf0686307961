package memsvc_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	memsvc "github.com/memsvc/memsvc/packages/go"
	memsvcv1 "github.com/memsvc/memsvc/packages/go/memsvc/v1"
)

// The tests call the service of MEMSVC_TEST_ADDRESS, and that of MEMSVC_TEST_GUARDED_ADDRESS, which asks for TLS and a
// key.

func connect(t *testing.T, options memsvc.Options) *memsvc.Client {
	t.Helper()
	return connectTo(t, os.Getenv("MEMSVC_TEST_ADDRESS"), options)
}

func connectTo(t *testing.T, address string, options memsvc.Options) *memsvc.Client {
	t.Helper()
	if address == "" {
		t.Skip("MEMSVC_TEST_ADDRESS and MEMSVC_TEST_GUARDED_ADDRESS name no services")
	}
	if options.UserID == "" {
		options.UserID = "go-" + rand.Text()
	}
	client, err := memsvc.Connect(address, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func failure(t *testing.T, err error) *memsvc.Error {
	t.Helper()
	var failed *memsvc.Error
	if !errors.As(err, &failed) {
		t.Fatalf("%v is no *memsvc.Error", err)
	}
	return failed
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestWritesReadsChangesAndDeletes(t *testing.T) {
	ctx := t.Context()
	memory := connect(t, memsvc.Options{ProjectID: "trip", AgentID: "planner"})
	made := must(memory.Create(ctx, &memsvc.Memory{
		Content: "The hotel is in Alfama.", Key: "hotel", Tags: []string{"hotel"},
	}))
	if made.GetOutcome() != memsvcv1.WriteOutcome_WRITE_OUTCOME_CREATED {
		t.Error(made.GetOutcome())
	}
	id := made.GetMemory().GetId()
	if by := must(memory.GetByKey(ctx, "hotel")); by.GetId() != id || by.GetScope().GetAgentId() != "planner" {
		t.Error(by)
	}
	change := &memsvc.Memory{Key: "hotel", Importance: 5}
	updated := must(memory.Update(ctx, change, []string{"importance", "tags"})).GetMemory()
	if updated.GetImportance() != 5 || len(updated.GetTags()) != 0 || updated.GetContent() != "The hotel is in Alfama." {
		t.Error(updated)
	}
	must(memory.Delete(ctx, id))
	_, err := memory.Get(ctx, id)
	if failed := failure(t, err); failed.Code != codes.NotFound || failed.Reason != "MEMORY_NOT_FOUND" {
		t.Error(failed)
	}
	if status.Code(err) != codes.NotFound {
		t.Error("the error does not wrap that of gRPC")
	}
}

func TestAppliesAWriteWithTheSameRequestIDOnce(t *testing.T) {
	memory := connect(t, memsvc.Options{})
	id := rand.Text()
	repeated := func(r *memsvc.CreateMemoryRequest) { r.RequestId = id }
	first := must(memory.Create(t.Context(), &memsvc.Memory{Content: "Ann wants a window seat."}, repeated))
	second := must(memory.Create(t.Context(), &memsvc.Memory{Content: "Ann wants a window seat."}, repeated))
	if first.GetMemory().GetId() != second.GetMemory().GetId() || first.GetOutcome() != second.GetOutcome() {
		t.Error(first, second)
	}
}

func TestSearchesAndBuildsAContext(t *testing.T) {
	ctx := t.Context()
	memory := connect(t, memsvc.Options{ProjectID: "trip"})
	must(memory.Create(ctx, &memsvc.Memory{Content: "我对花生过敏。", Layer: memsvcv1.MemoryLayer_MEMORY_LAYER_CORE}))
	found := must(memory.Search(ctx, "花生", func(r *memsvc.SearchRequest) { r.Limit = 1 })).GetHits()
	if len(found) != 1 || found[0].GetMemory().GetContent() != "我对花生过敏。" {
		t.Error(found)
	}
	built := memory.Context(ctx, "Book a table", func(r *memsvc.BuildContextRequest) { r.Options.TotalTokens = new(int32(400)) })
	if text := must(built.Text()); !strings.Contains(text, "我对花生过敏。") {
		t.Error(text)
	} else if whole := must(memory.Searches.RenderContext(ctx, &memsvcv1.RenderContextRequest{
		Scope: memory.Scope(), Query: "Book a table", Options: &memsvc.ContextOptions{TotalTokens: new(int32(400))},
	})); text != whole.GetMarkdown() {
		t.Error(text, whole)
	}
	var hasPlan, hasSummary bool
	for event, err := range built.Events() {
		if err != nil {
			t.Fatal(err)
		}
		hasPlan = hasPlan || event.GetPlan().GetTotalTokens() == 400
		hasSummary = event.GetSummary() != nil
	}
	if !hasPlan || !hasSummary {
		t.Error(hasPlan, hasSummary)
	}
	_, err := memory.Context(ctx, strings.Repeat("x", 9_000)).Text()
	if failed := failure(t, err); failed.Reason != "INVALID_REQUEST" {
		t.Error(failed)
	}
}

func TestCaptures(t *testing.T) {
	memory := connect(t, memsvc.Options{})
	captured := must(memory.Capture(t.Context(), "I live in Hamburg.", func(r *memsvc.CaptureMemoryRequest) { r.DryRun = true }))
	if len(captured.GetDecisions()) != 1 {
		t.Error(captured)
	}
}

func TestHoldsASession(t *testing.T) {
	ctx := t.Context()
	session := connect(t, memsvc.Options{ProjectID: "trip"}).Session("")
	if err := session.Open(ctx, func(r *memsvc.CreateSessionRequest) { r.Title = "Dinner" }); err != nil {
		t.Fatal(err)
	}
	if session.ID() == "" {
		t.Error("the session has no id")
	}
	appended := must(session.Append(ctx, []*memsvc.ChatMessage{
		{Content: "A table for two?"},
		{Role: memsvcv1.MessageRole_MESSAGE_ROLE_ASSISTANT, Content: "At eight."},
	}))
	if len(appended.GetMessages()) != 2 {
		t.Error(appended)
	}
	if text := must(session.Client.Context(ctx, "dinner").Text()); !strings.Contains(text, "At eight.") {
		t.Error(text)
	}
	closed := must(session.Close(ctx, func(r *memsvc.CloseSessionRequest) { r.Flush = new(false) }))
	if closed.GetSession().GetScope().GetSessionId() != session.ID() {
		t.Error(closed)
	}
}

func TestErrorsHaveCodeReasonViolationsAndMetadata(t *testing.T) {
	ctx := t.Context()
	memory := connect(t, memsvc.Options{})
	_, err := memory.Create(ctx, &memsvc.Memory{Importance: 9, Tags: []string{""}})
	failed := failure(t, err)
	fields := []string{}
	for _, violation := range failed.Violations {
		fields = append(fields, violation.Field)
	}
	if failed.Code != codes.InvalidArgument || failed.Reason != "INVALID_REQUEST" ||
		!slices.Equal(fields, []string{"memory.content", "memory.tags[0]", "memory.importance"}) {
		t.Error(failed)
	}
	stored := must(memory.Create(ctx, &memsvc.Memory{Content: "At revision 1."})).GetMemory()
	_, err = memory.Update(ctx, &memsvc.Memory{Id: stored.GetId(), Importance: 2}, []string{"importance"},
		func(r *memsvc.UpdateMemoryRequest) { r.ExpectedRevision = 7 })
	if failed := failure(t, err); failed.Code != codes.Aborted || failed.Metadata["revision"] != "1" {
		t.Error(failed)
	}
}

func TestErrorsOfGeneratedClientsAreDecoded(t *testing.T) {
	memory := connect(t, memsvc.Options{})
	request := &memsvcv1.CreateMemoryRequest{Memory: &memsvc.Memory{Content: "x", Importance: 9}}
	_, err := memory.Memories.CreateMemory(t.Context(), request)
	failed, ok := memsvc.FromError(fmt.Errorf("wrapped: %w", err))
	if !ok || failed.Reason != "INVALID_REQUEST" || len(failed.Violations) != 2 ||
		failed.Violations[0].Field != "scope.user_id" || failed.Violations[1].Field != "memory.importance" {
		t.Error(failed, ok)
	}
	if again, ok := memsvc.FromError(failed); !ok || again != failed {
		t.Error(again, ok)
	}
	for _, other := range []error{nil, errors.New("of the program")} {
		if failed, ok := memsvc.FromError(other); ok || failed != nil {
			t.Error(failed, ok)
		}
	}
	lost := connectTo(t, "127.0.0.1:1", memsvc.Options{})
	_, err = lost.Memories.CreateMemory(t.Context(), request)
	if failed, _ := memsvc.FromError(err); !strings.HasPrefix(failed.Message, "no service can be reached: ") {
		t.Error(failed)
	}
}

func TestACallEndsAtItsDeadline(t *testing.T) {
	memory := connect(t, memsvc.Options{Timeout: time.Nanosecond})
	_, err := memory.Search(t.Context(), "late")
	if failed := failure(t, err); failed.Code != codes.DeadlineExceeded {
		t.Error(failed)
	}
}

func TestACallThatAStoppingServiceCancelsIsRepeated(t *testing.T) {
	calls := 0
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if calls++; calls == 1 {
			return status.Error(codes.Canceled, "Cancelled on the server side")
		}
		if err := stream.RecvMsg(new(memsvcv1.SearchRequest)); err != nil {
			return err
		}
		return stream.SendMsg(new(memsvcv1.SearchResponse))
	}))
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	memory := connectTo(t, listener.Addr().String(), memsvc.Options{})
	must(memory.Search(t.Context(), "x"))
	if calls != 2 {
		t.Error(calls)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := memory.Search(cancelled, "x")
	if failed := failure(t, err); failed.Code != codes.Canceled || calls != 2 {
		t.Error(failed, calls)
	}
}

// watchService answers calls that watch.
type watchService struct {
	memsvcv1.UnimplementedMemoryServiceServer
	respond func(*memsvc.WatchMemoriesRequest, grpc.ServerStreamingServer[memsvcv1.WatchMemoriesResponse]) error
}

func (w watchService) WatchMemories(
	request *memsvc.WatchMemoriesRequest, stream grpc.ServerStreamingServer[memsvcv1.WatchMemoriesResponse],
) error {
	return w.respond(request, stream)
}

func TestAWatchThatAStoppingServiceCancelsIsResumed(t *testing.T) {
	var cursors []string
	server := grpc.NewServer()
	memsvcv1.RegisterMemoryServiceServer(server, watchService{
		respond: func(
			request *memsvc.WatchMemoriesRequest, stream grpc.ServerStreamingServer[memsvcv1.WatchMemoriesResponse],
		) error {
			switch cursors = append(cursors, request.GetCursor()); len(cursors) {
			case 1: // before the watch has begun
			case 2:
				stream.Send(&memsvcv1.WatchMemoriesResponse{
					Event: &memsvcv1.WatchMemoriesResponse_Heartbeat{}, Cursor: "begun",
				})
			default:
				stream.Send(&memsvcv1.WatchMemoriesResponse{
					Event: &memsvcv1.WatchMemoriesResponse_Change{Change: &memsvc.MemoryChange{}}, Cursor: "changed",
				})
				<-stream.Context().Done()
			}
			return status.Error(codes.Canceled, "Cancelled on the server side")
		},
	})
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	attempts := 0
	count := func(
		ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string,
		open grpc.Streamer, options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		attempts++
		return open(ctx, description, connection, method, options...)
	}
	memory := connectTo(t, listener.Addr().String(), memsvc.Options{
		DialOptions: []grpc.DialOption{grpc.WithStreamInterceptor(count)},
	})
	watch := must(memory.Watch(t.Context()))
	if event := <-watch.Events(); event.Change == nil || event.Cursor != "changed" {
		t.Error(event)
	}
	if !slices.Equal(cursors, []string{"", "", "begun"}) {
		t.Error(cursors)
	}
	memory.Close()
	for range watch.Events() {
	}
	if failed := failure(t, watch.Err()); failed.Code != codes.Canceled || attempts != 3 {
		t.Error(failed, attempts)
	}
}

func serveWatches(
	t *testing.T, respond func(*memsvc.WatchMemoriesRequest, grpc.ServerStreamingServer[memsvcv1.WatchMemoriesResponse]) error,
) *memsvc.Client {
	t.Helper()
	server := grpc.NewServer()
	memsvcv1.RegisterMemoryServiceServer(server, watchService{respond: respond})
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return connectTo(t, listener.Addr().String(), memsvc.Options{})
}

func TestAWatchThatTheServiceEndsBeforeItBeginsIsRepeatedFiveTimes(t *testing.T) {
	var calls atomic.Int32
	memory := serveWatches(t, func(
		*memsvc.WatchMemoriesRequest, grpc.ServerStreamingServer[memsvcv1.WatchMemoriesResponse],
	) error {
		calls.Add(1)
		return nil
	})
	_, err := memory.Watch(t.Context())
	failed := failure(t, err)
	if failed.Code != codes.Unavailable || !strings.Contains(failed.Message, "the service ended the stream") || calls.Load() != 5 {
		t.Error(failed, calls.Load())
	}
}

func TestAWatchIsResumedAfterItsStreamEndsAndAfterARefusalWithADelay(t *testing.T) {
	var calls atomic.Int32
	memory := serveWatches(t, func(
		_ *memsvc.WatchMemoriesRequest, stream grpc.ServerStreamingServer[memsvcv1.WatchMemoriesResponse],
	) error {
		switch calls.Add(1) {
		case 1:
			return stream.Send(&memsvcv1.WatchMemoriesResponse{Event: &memsvcv1.WatchMemoriesResponse_Heartbeat{}})
		case 2:
			limited := must(status.New(codes.ResourceExhausted, "too many streams").WithDetails(
				&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)}))
			return limited.Err()
		default:
			stream.Send(&memsvcv1.WatchMemoriesResponse{
				Event: &memsvcv1.WatchMemoriesResponse_Change{Change: &memsvc.MemoryChange{}}, Cursor: "changed",
			})
			<-stream.Context().Done()
			return nil
		}
	})
	watch := must(memory.Watch(t.Context()))
	defer watch.Close()
	if event, isOpen := <-watch.Events(); !isOpen || event.Cursor != "changed" {
		t.Error(event, watch.Err())
	}
}

func TestAWatchWithoutAFirstResponseFails(t *testing.T) {
	var calls atomic.Int32
	memory := serveWatches(t, func(
		_ *memsvc.WatchMemoriesRequest, stream grpc.ServerStreamingServer[memsvcv1.WatchMemoriesResponse],
	) error {
		calls.Add(1)
		<-stream.Context().Done()
		return nil
	})
	_, err := memory.Watch(t.Context(), func(r *memsvc.WatchMemoriesRequest) {
		r.HeartbeatInterval = durationpb.New(200 * time.Millisecond)
	})
	failed := failure(t, err)
	if failed.Code != codes.Unavailable || !strings.Contains(failed.Message, "nothing came for 600ms") || calls.Load() != 1 {
		t.Error(failed, calls.Load())
	}
}

func TestACallIsNotRepeatedAfterTheClientIsClosed(t *testing.T) {
	attempts := 0
	count := func(
		ctx context.Context, method string, request, response any, connection *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		attempts++
		return invoke(ctx, method, request, response, connection, options...)
	}
	memory := connectTo(t, "127.0.0.1:1", memsvc.Options{DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(count)}})
	memory.Close()
	_, err := memory.Search(t.Context(), "x")
	if failed := failure(t, err); failed.Code != codes.Canceled || attempts != 1 {
		t.Error(failed, attempts)
	}
}

func TestNoServiceCanBeReached(t *testing.T) {
	memory := connectTo(t, "127.0.0.1:1", memsvc.Options{})
	_, err := memory.Search(t.Context(), "x")
	if failed := failure(t, err); failed.Code != codes.Unavailable || !strings.Contains(failed.Message, "127.0.0.1:1") {
		t.Error(failed)
	}
	for _, address := range []string{"no address", "host", "host:0", "http://host:1"} {
		if _, err := memsvc.Connect(address, memsvc.Options{UserID: "go"}); err == nil {
			t.Errorf("%q is an address", address)
		}
	}
}

func TestWatchesFromItsBeginOnAndAfterABrokenConnection(t *testing.T) {
	ctx := t.Context()
	user := "go-" + rand.Text()
	writer := connect(t, memsvc.Options{UserID: user})
	proxy := startProxy(t, os.Getenv("MEMSVC_TEST_ADDRESS"))
	watch := must(connectTo(t, proxy.address, memsvc.Options{UserID: user}).Watch(ctx))
	var cursors []string
	for _, content := range []string{"One.", "Two.", "Three."} {
		must(writer.Create(ctx, &memsvc.Memory{Content: content}))
		event := <-watch.Events()
		if event.Change.GetMemory().GetContent() != content {
			t.Error(event)
		}
		cursors = append(cursors, event.Cursor)
		proxy.cut()
	}
	watch.Close()
	if _, isOpen := <-watch.Events(); isOpen || watch.Err() != nil {
		t.Error("the watch is not closed", watch.Err())
	}
	again := must(writer.Watch(ctx, func(r *memsvc.WatchMemoriesRequest) { r.Cursor = cursors[0] }))
	defer again.Close()
	if event := <-again.Events(); event.Change.GetMemory().GetContent() != "Two." {
		t.Error(event)
	}
	_, err := writer.Watch(ctx, func(r *memsvc.WatchMemoriesRequest) { r.Cursor = "no cursor" })
	if failed := failure(t, err); failed.Code != codes.InvalidArgument {
		t.Error(failed)
	}
}

func TestAGuardedServiceIsCalledWithAKeyAndItsRateLimitIsWaitedFor(t *testing.T) {
	address, key := os.Getenv("MEMSVC_TEST_GUARDED_ADDRESS"), os.Getenv("MEMSVC_TEST_KEY")
	tls := &memsvc.TLS{CA: os.Getenv("MEMSVC_TEST_CA")}
	memory := connectTo(t, address, memsvc.Options{UserID: "ann", ProjectID: rand.Text(), APIKey: key, TLS: tls})
	var writers sync.WaitGroup
	for number := range 8 {
		writers.Go(func() {
			if _, err := memory.Create(t.Context(), &memsvc.Memory{Content: fmt.Sprintf("Number %d.", number)}); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	found := must(memory.Search(t.Context(), "Number", func(r *memsvc.SearchRequest) { r.Limit = 10 }))
	if len(found.GetHits()) != 8 {
		t.Error(found)
	}
	_, err := connectTo(t, address, memsvc.Options{TLS: tls}).Search(t.Context(), "x")
	if failed := failure(t, err); failed.Code != codes.Unauthenticated {
		t.Error(failed)
	}
	_, err = connectTo(t, address, memsvc.Options{APIKey: key}).Search(t.Context(), "x")
	if failed := failure(t, err); failed.Code != codes.Unavailable {
		t.Error(failed)
	}
}

// tcpProxy is a TCP proxy whose connections can be cut.
type tcpProxy struct {
	address string
	lock    sync.Mutex
	open    []net.Conn
}

func startProxy(t *testing.T, target string) *tcpProxy {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	proxy := &tcpProxy{address: listener.Addr().String()}
	t.Cleanup(func() {
		listener.Close()
		proxy.cut()
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			proxy.lock.Lock()
			proxy.open = append(proxy.open, client, server)
			proxy.lock.Unlock()
			go io.Copy(client, server)
			go io.Copy(server, client)
		}
	}()
	return proxy
}

func (p *tcpProxy) cut() {
	p.lock.Lock()
	defer p.lock.Unlock()
	for _, connection := range p.open {
		connection.Close()
	}
	p.open = nil
}
