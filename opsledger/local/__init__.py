"""Everything on one machine: embedded servers, the supervisor behind `make up`, private servers for tests."""
