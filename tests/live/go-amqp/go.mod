module wirefmt-live

go 1.23.0

require github.com/Azure/go-amqp v1.4.0
