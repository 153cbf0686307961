// Command memsvc-agent is a small agent with a long-term memory: it plans a trip. It writes what it hears in two
// languages, searches it, builds a context, and watches its memories.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/google/uuid"
	memsvc "github.com/memsvc/memsvc/packages/go"
	memsvcv1 "github.com/memsvc/memsvc/packages/go/memsvc/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// heard is what the agent hears. The last one has the key of the first, so it changes that memory.
var heard = []*memsvc.Memory{
	{Key: "hotel", Content: "The hotel in Lisbon is two minutes from the metro station Baixa-Chiado.", Tags: []string{"hotel"}},
	{Content: "我对花生过敏，点菜前要先告诉餐厅。", Layer: memsvcv1.MemoryLayer_MEMORY_LAYER_CORE, Tags: []string{"food"}},
	{Content: "Ann wants a window seat on long flights.", Kind: memsvcv1.MemoryKind_MEMORY_KIND_PREFERENCE},
	{Content: "找一家可以听法多音乐的餐厅。", Kind: memsvcv1.MemoryKind_MEMORY_KIND_TASK, Metadata: &structpb.Struct{
		Fields: map[string]*structpb.Value{"party": structpb.NewNumberValue(2), "booked": structpb.NewBoolValue(false)}}},
	{Key: "hotel", Content: "The hotel in Lisbon moved us to its house in Alfama, five minutes from the metro."},
}

func main() {
	log.SetFlags(0)
	address := cmp.Or(append(os.Args, "")[1], os.Getenv("MEMSVC_ADDRESS"), memsvc.DefaultAddress)
	options := memsvc.Options{UserID: "ann", ProjectID: "trip-" + uuid.NewString(), AgentID: "planner-go"}
	if authority := os.Getenv("MEMSVC_TLS_CA"); authority != "" {
		options.TLS = &memsvc.TLS{CA: authority}
	}
	memory := must(memsvc.Connect(address, options))
	defer memory.Close()
	ctx := context.Background()
	watch := must(memory.Watch(ctx)) // from now on no change is missed
	for _, one := range heard {
		stored := must(memory.Create(ctx, one))
		fmt.Println(" ", stored.Outcome, stored.Memory.Content)
	}
	_, err := memory.Create(ctx, &memsvc.Memory{Importance: 9})
	if rejected := new(memsvc.Error); errors.As(err, &rejected) {
		fmt.Println("A wrong request is rejected:", rejected.Code, rejected.Reason)
		for _, violation := range rejected.Violations {
			fmt.Printf("  %s: %s\n", violation.Field, violation.Description)
		}
	}
	filter := &memsvc.Filter{TagsAny: []string{"hotel", "food"}}
	for _, query := range []string{"Where is our hotel?", "餐厅要注意什么？"} {
		fmt.Printf("Found for %q:\n", query)
		for _, hit := range must(memory.Search(ctx, query, func(r *memsvc.SearchRequest) { r.Filter = filter })).Hits {
			fmt.Printf("  %.2f %s\n", hit.Score, hit.Memory.Content)
		}
	}
	fmt.Printf("Context:\n%s", must(memory.Context(ctx, "Book a table for dinner near the hotel.").Text()))
	fmt.Println("The watch saw:")
	var cursor string
	for range heard {
		event := <-watch.Events()
		cursor = cmp.Or(cursor, event.Cursor)
		fmt.Println(" ", event.Change.Action, event.Change.Revision, event.Change.Memory.Content)
	}
	resumed := must(memory.Watch(ctx, func(r *memsvc.WatchMemoriesRequest) { r.Cursor = cursor }))
	fmt.Println("Resumed after the first of them:", (<-resumed.Events()).Change.Memory.Content)
	fmt.Println("Done: project", options.ProjectID)
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
