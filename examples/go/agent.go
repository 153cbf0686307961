package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	memsvcv1 "memsvc-agent/internal/gen/memsvc/v1"
)

const (
	callTimeout   = 10 * time.Second
	contextTokens = 400
)

// agent plans a trip. It keeps what it is told in a project of its own.
type agent struct {
	memories memsvcv1.MemoryServiceClient
	searches memsvcv1.SearchServiceClient
	scope    *memsvcv1.Scope
}

func newAgent(connection grpc.ClientConnInterface) *agent {
	return &agent{
		memories: memsvcv1.NewMemoryServiceClient(connection),
		searches: memsvcv1.NewSearchServiceClient(connection),
		scope: &memsvcv1.Scope{
			UserId:    "ann",
			ProjectId: "trip-" + uuid.NewString(),
			AgentId:   "planner-go",
		},
	}
}

// told returns what the agent hears of the trip, in the order in which it hears it. The last one has the key of the
// first, so it changes that memory.
func told() ([]*memsvcv1.Memory, error) {
	metadata, err := structpb.NewStruct(map[string]any{"party": 2, "booked": false})
	if err != nil {
		return nil, err
	}
	return []*memsvcv1.Memory{
		{
			Key:        "hotel",
			Content:    "The hotel in Lisbon is two minutes from the metro station Baixa-Chiado.",
			Tags:       []string{"hotel"},
			Importance: 4,
		},
		{
			Content:    "我对花生过敏，点菜前要先告诉餐厅。",
			Layer:      memsvcv1.MemoryLayer_MEMORY_LAYER_CORE,
			Tags:       []string{"food"},
			Importance: 5,
		},
		{
			Content:    "Ann wants a window seat on long flights.",
			Kind:       memsvcv1.MemoryKind_MEMORY_KIND_PREFERENCE,
			Tags:       []string{"flight"},
			Importance: 4,
		},
		{
			Content:    "找一家可以听法多音乐的餐厅。",
			Kind:       memsvcv1.MemoryKind_MEMORY_KIND_TASK,
			Tags:       []string{"food", "music"},
			Importance: 4,
			Metadata:   metadata,
		},
		{
			Key:     "hotel",
			Content: "The hotel in Lisbon moved us to its house in Alfama, five minutes from the metro.",
		},
	}, nil
}

// remember writes what the agent is told, and returns how many writes that were.
func (a *agent) remember(ctx context.Context) (int, error) {
	memories, err := told()
	if err != nil {
		return 0, err
	}
	for index, memory := range memories {
		request := &memsvcv1.CreateMemoryRequest{Scope: a.scope, Memory: memory, RequestId: uuid.NewString()}
		response, err := a.create(ctx, request)
		if err != nil {
			return 0, err
		}
		outcome := strings.TrimPrefix(response.GetOutcome().String(), "WRITE_OUTCOME_")
		fmt.Printf("  %s %s\n", outcome, response.GetMemory().GetContent())
		if index > 0 {
			continue
		}
		// As if the reply had been lost: the same request once more. Its request_id makes it happen once.
		again, err := a.create(ctx, request)
		if err != nil {
			return 0, err
		}
		if again.GetMemory().GetId() != response.GetMemory().GetId() || again.GetOutcome() != response.GetOutcome() {
			return 0, errors.New("a repeated request was carried out twice")
		}
		fmt.Println("  Sent again with the same request_id: the same answer, stored once.")
	}
	return len(memories), nil
}

// create makes one call, with a deadline. When the service asks for a pause, it is made.
func (a *agent) create(
	ctx context.Context, request *memsvcv1.CreateMemoryRequest,
) (*memsvcv1.CreateMemoryResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return patiently(ctx, func() (*memsvcv1.CreateMemoryResponse, error) {
		return a.memories.CreateMemory(ctx, request)
	})
}

// sendWrongRequest shows what a refusal looks like: every broken rule at once, each with its field.
func (a *agent) sendWrongRequest(ctx context.Context) error {
	_, err := a.create(ctx, &memsvcv1.CreateMemoryRequest{
		Scope:  a.scope,
		Memory: &memsvcv1.Memory{Importance: 9, Tags: []string{""}},
	})
	failure := failureOf(err)
	if failure.reason != memsvcv1.ErrorReason_ERROR_REASON_INVALID_REQUEST.String() {
		return err
	}
	fmt.Println("A wrong request is refused:", failure)
	return nil
}

// recall asks for what was remembered, in both languages, and returns how many memories were found.
func (a *agent) recall(ctx context.Context) (int, error) {
	found := 0
	for _, query := range []string{"Where is our hotel?", "餐厅要注意什么？"} {
		hits, err := a.search(ctx, query)
		if err != nil {
			return 0, err
		}
		fmt.Printf("Found for %q:\n", query)
		for _, hit := range hits {
			fmt.Printf("  %.2f %s\n", hit.GetScore(), hit.GetMemory().GetContent())
		}
		found += len(hits)
	}
	return found, nil
}

// search finds by meaning and by words what matters and is no task.
func (a *agent) search(ctx context.Context, query string) ([]*memsvcv1.Hit, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request := &memsvcv1.SearchRequest{
		Scope: a.scope,
		Query: query,
		Mode:  memsvcv1.SearchMode_SEARCH_MODE_HYBRID,
		Filter: &memsvcv1.Filter{
			TagsAny:       []string{"hotel", "food"},
			MinImportance: 4,
			Where: &memsvcv1.FilterExpression{Node: &memsvcv1.FilterExpression_Condition{
				Condition: &memsvcv1.FilterCondition{
					Field:    memsvcv1.FilterField_FILTER_FIELD_KIND,
					Operator: memsvcv1.FilterOperator_FILTER_OPERATOR_NOT_EQUALS,
					Values:   []*structpb.Value{structpb.NewStringValue("TASK")},
				},
			}},
		},
		Limit: 3,
	}
	response, err := patiently(ctx, func() (*memsvcv1.SearchResponse, error) {
		return a.searches.Search(ctx, request)
	})
	return response.GetHits(), err
}

// prepare streams the context for the next answer and writes it as it comes. It returns how many items it has.
func (a *agent) prepare(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	tokens := int32(contextTokens)
	stream, err := a.searches.BuildContext(ctx, &memsvcv1.BuildContextRequest{
		Scope:   a.scope,
		Query:   "Book a table for dinner near the hotel.",
		Options: &memsvcv1.ContextOptions{TotalTokens: &tokens},
	})
	if err != nil {
		return 0, err
	}
	items := 0
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return items, nil
		}
		if err != nil {
			return 0, err
		}
		items += show(response)
	}
}

// show writes one event of a context, and returns how many items it holds. The texts of all events are the prompt.
func show(response *memsvcv1.BuildContextResponse) int {
	switch event := response.GetEvent().(type) {
	case *memsvcv1.BuildContextResponse_Plan:
		fmt.Printf("Context of at most %d tokens (%s):\n", event.Plan.GetTotalTokens(), event.Plan.GetTokenizer())
	case *memsvcv1.BuildContextResponse_Items:
		for _, item := range event.Items.GetItems() {
			section := strings.TrimPrefix(item.GetSection().String(), "CONTEXT_SECTION_")
			fmt.Printf("  %s, %d tokens:\n%s", section, item.GetTokenCount(), item.GetText())
		}
		return len(event.Items.GetItems())
	case *memsvcv1.BuildContextResponse_Warning:
		fmt.Fprintln(os.Stderr, "Warning:", event.Warning.GetMessage())
	case *memsvcv1.BuildContextResponse_Summary:
		fmt.Printf("  %d tokens in all\n", event.Summary.GetTokenCount())
	}
	return 0
}
