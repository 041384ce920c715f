package poll
