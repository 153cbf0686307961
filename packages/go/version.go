package memsvc

// Version is the version of this package, which equals that of the service it was released with.
const Version = "0.1.0"
