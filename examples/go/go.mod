module memsvc-agent

go 1.26.0

require (
	github.com/google/uuid v1.6.0
	github.com/memsvc/memsvc/packages/go v0.1.0
	google.golang.org/protobuf v1.36.12
)

require (
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20261026165753-2ffab32bce7e // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261026165753-2ffab32bce7e // indirect
	google.golang.org/grpc v1.85.0 // indirect
)

// The package of this checkout. Without this line it is the published one.
replace github.com/memsvc/memsvc/packages/go => ../../packages/go
