package memsvc

import memsvcv1 "github.com/memsvc/memsvc/packages/go/memsvc/v1"

// Messages of the API that the methods of Client take and return. All others, and the enums, are in the package
// memsvcv1, "github.com/memsvc/memsvc/packages/go/memsvc/v1".
type (
	Scope       = memsvcv1.Scope
	Memory      = memsvcv1.Memory
	Filter      = memsvcv1.Filter
	Hit         = memsvcv1.Hit
	ChatMessage = memsvcv1.ChatMessage

	CreateMemoryRequest   = memsvcv1.CreateMemoryRequest
	CreateMemoryResponse  = memsvcv1.CreateMemoryResponse
	GetMemoryRequest      = memsvcv1.GetMemoryRequest
	UpdateMemoryRequest   = memsvcv1.UpdateMemoryRequest
	UpdateMemoryResponse  = memsvcv1.UpdateMemoryResponse
	DeleteMemoryRequest   = memsvcv1.DeleteMemoryRequest
	DeleteMemoryResponse  = memsvcv1.DeleteMemoryResponse
	CaptureMemoryRequest  = memsvcv1.CaptureMemoryRequest
	CaptureMemoryResponse = memsvcv1.CaptureMemoryResponse

	SearchRequest        = memsvcv1.SearchRequest
	SearchResponse       = memsvcv1.SearchResponse
	BuildContextRequest  = memsvcv1.BuildContextRequest
	BuildContextResponse = memsvcv1.BuildContextResponse
	ContextOptions       = memsvcv1.ContextOptions

	CreateSessionRequest   = memsvcv1.CreateSessionRequest
	AppendMessagesRequest  = memsvcv1.AppendMessagesRequest
	AppendMessagesResponse = memsvcv1.AppendMessagesResponse
	CloseSessionRequest    = memsvcv1.CloseSessionRequest
	CloseSessionResponse   = memsvcv1.CloseSessionResponse

	WatchMemoriesRequest = memsvcv1.WatchMemoriesRequest
	MemoryChange         = memsvcv1.MemoryChange
)
